"""Whole files: every kernel and function of one beside the one of the same name in the other.

A proof about a kernel takes for granted what lies outside of it: the functions that it calls and the constant data
that its code finds by the program counter. So all functions are proved with the kernels, and where code reads its own
place the data sections must be the same bytes (the kernel descriptors among them aside, which are compared by
what they mean); otherwise nothing is proved of that kernel.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from asmevo.emulator import LaunchManifest
from asmevo.program.codeobject import CodeObject
from asmevo.program.descriptor import SIZE as DESCRIPTOR_SIZE
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.program.reading import PC_READS
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.launching import settled_by_launch
from asmevo.prover.proving import Outcome, ProofLimits, ProofResult, prove_kernels

_DESCRIPTOR_SUFFIX = ".kd"
_DATA = ("SHT_PROGBITS", "SHT_NOBITS")
_OF_THE_DEBUGGER = (".eh_frame", ".note")


class NamedProof(Struct, frozen=True):
    """What was found about one kernel or function."""

    kernel: str
    result: ProofResult


def prove_programs(
    before: Program,
    after: Program,
    pattern: str | None = None,
    policy: FloatPolicy = FloatPolicy.EXACT,
    limits: ProofLimits | None = None,
    launch: LaunchManifest | None = None,
    whole_waves: bool = False,
) -> list[NamedProof]:
    """Compares the kernels whose names match `pattern` (a glob), all kernels and functions without one.

    Two files that hold one piece of code each are compared whatever its name is. `launch` may refute what was left
    undecided of its kernel. `whole_waves` says that no launch has a wave with lanes missing. Raises
    KernelNotFoundError for a pattern that nothing matches, and LaunchError and ManifestError about the launch.
    """
    chosen = before.kernels if pattern is None else before.select(pattern)
    alone = len(before.kernels) == len(after.kernels) == 1
    others = {kernel.name: kernel for kernel in after.kernels}
    data = data_difference(before.image, after.image)
    proofs = []
    for kernel in chosen:
        kernel = replace(kernel, whole_waves=kernel.whole_waves or whole_waves)
        other = after.kernels[0] if alone else others.get(kernel.name)
        if other is None:
            result = ProofResult(Outcome.UNDECIDED, f"{after.file} has nothing of that name", policy)
        else:
            result = prove_kernels(kernel, other, policy, limits)
        if data is not None and result.outcome is Outcome.PROVED and _reads_data(kernel):
            result = replace(result, outcome=Outcome.UNDECIDED, reason=data, method="")
        wanted = launch is not None and launch.symbol == kernel.name and policy is FloatPolicy.EXACT
        if wanted and other is not None and result.outcome is Outcome.UNDECIDED:
            assert launch is not None
            if whole_waves:
                launch.refuse_partial_waves(kernel.target.name, kernel.wave_size)
            result = settled_by_launch(result, (before, kernel), (after, other), launch)
        proofs.append(NamedProof(kernel.name, result))
    return proofs


def data_difference(before: CodeObject, after: CodeObject) -> str | None:
    """The first data section that is not the same in both images, in one sentence."""
    first, second = _data_sections(before), _data_sections(after)
    for name in first.keys() | second.keys():
        if first.get(name) != second.get(name):
            return f"the code is the same, but the data in {name} is not, and the code finds data by its own place"
    return None


def _data_sections(image: CodeObject) -> dict[str, bytes]:
    """Loaded data by section, kernel descriptors blanked."""
    found = {}
    for section in image.sections:
        loaded = section.allocated and not section.executable and section.type in _DATA
        if not loaded or section.name.startswith(_OF_THE_DEBUGGER):
            continue
        content = bytearray(section.data.ljust(section.size, b"\0"))
        for symbol in image.symbols:
            if symbol.name.endswith(_DESCRIPTOR_SUFFIX) and symbol.section == section.index:
                start = image.offset_in_section(symbol)
                content[start : start + DESCRIPTOR_SIZE] = bytes(DESCRIPTOR_SIZE)
        found[section.name] = bytes(content)
    return found


def _reads_data(kernel: Kernel) -> bool:
    return any(each.reference is not None or each.mnemonic in PC_READS for each in kernel.instructions)
