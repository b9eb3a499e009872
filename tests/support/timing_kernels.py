"""Kernels from a few lines of assembly, and when their instructions issue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from asmevo.program.codeobject import CodeObject
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.program.reading import branch_distance, ends_block
from asmevo.target import load_target
from asmevo.timing import estimate
from asmevo.timing.steps import Step
from asmevo.timing.wave import Bound, Wave
from asmevo.toolchain import Processor, toolchain

Build = Callable[..., Kernel]


def build_kernel(gpu: str, *texts: str) -> Kernel:
    """A kernel with one block for each text; `loop` names the block itself, `b<n>` block n."""
    target = load_target(gpu)
    context = DecodingContext(target, target.default_wave_size)
    blocks, number = [], 0
    for place, text in enumerate(texts):
        source = "".join(f"{line.strip()}\n" for line in text.replace("loop", f"b{place}").splitlines() if line.strip())
        labels = "".join(f"b{n}:\n" for n in range(len(texts)))
        image = CodeObject(toolchain().assemble(labels + source, Processor(gpu)), "test")
        code = next(section for section in image.sections if section.executable and section.size).data
        goals = [line.split()[-1] for line in source.splitlines() if "branch" in line]
        own = []
        for decoded in decode_code(code, context):
            goal = goals.pop(0) if branch_distance(decoded) is not None else None
            own.append(Instruction(number, decoded, goal))
            assert not ends_block(decoded) or decoded.mnemonic
            number += 1
        blocks.append(Block(place, (f"b{place}",), tuple(own)))
    return Kernel("test", target, target.default_wave_size, tuple(blocks), 0, 0)


def issues(kernel_of: Build, gpu: str, text: str, waves: int = 1) -> list[list[int]]:
    """For each wave the cycles in which the lines of `text` issue, s_endpgm behind them left out."""
    found: list[list[int]] = [[] for _ in range(waves)]

    def note(wave: Wave, _step: Step, time: int, _own: Bound, _shared: Bound | None) -> None:
        found[wave.number].append(time)

    estimate(kernel_of(gpu, f"{text}\ns_endpgm"), waves=waves, observe=note)
    return [[time - times[0] for time in times[:-1]] for times in found]


def gaps(kernel_of: Build, gpu: str, text: str) -> list[int]:
    """Cycles between the issues of a single wave."""
    (times,) = issues(kernel_of, gpu, text)
    return [later - time for time, later in pairwise(times)]
