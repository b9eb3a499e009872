"""Random instructions through LLVM's hazard and wait passes and through ours, and what the two say.

One run of `llc` does a whole batch: each sample is a function of a module in machine IR. What LLVM puts in front of
the last instruction is read from the passes' output, the machine code without it from an object file that the passes
behind them make. Needs LLVM 22's `llc` (`llc-22`, or $LLC).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO

from elftools.elf.elffile import ELFFile
from msgspec import Struct, field
from msgspec.structs import replace
from vocabulary import ALU, ANY, FILL, MEMORY, Word, filled, words

from asmevo.analysis.hazard_rules import HazardRules
from asmevo.analysis.hazards import Violation, analyse_hazards
from asmevo.analysis.replay import replay_hazards
from asmevo.analysis.wait_counters import WaitAnalysis
from asmevo.program.decode import DecodingContext, decode_code
from asmevo.program.descriptor import KernelDescriptor
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Block, Kernel
from asmevo.target import Target, load_target
from asmevo.toolchain import Processor, toolchain

LLC = os.environ.get("LLC", "llc-22")
_ALWAYS = ("-mtriple=amdgcn-amd-amdhsa", "-x", "mir", "-verify-machineinstrs=0")
_HAZARDS = "-run-pass=post-RA-hazard-rec,amdgpu-wait-sgpr-hazards"
_WAITS = "-run-pass=si-insert-waitcnts"
_PLAIN = ("-start-after=post-RA-hazard-rec", "-amdgpu-sgpr-hazard-wait=0", "-amdgpu-enable-delay-alu=0")
_FIRST_WAIT = 1000  # ids of inserted waits
_OPCODE = re.compile(r"\b([A-Z][A-Z0-9]*_\w+)\b")


class Sample(Struct, frozen=True):
    """Instructions in machine IR, their kinds, and the target; `is_loop`: they are the body of a loop."""

    target: str
    kinds: tuple[str, ...]
    lines: tuple[str, ...]
    is_loop: bool = False


class Disagreement(Struct, frozen=True):
    """A sample about which the two say different things. `theirs` and `ours` are readable; `rules` ours, sorted."""

    sample: Sample
    subject: str
    theirs: str
    ours: str
    rules: tuple[str, ...] = field(default=())

    @property
    def stricter(self) -> str:
        """Who asks for something that the other does not ask for: `llvm`, `asmevo` or `both`."""
        if self.theirs == "nothing":
            return "asmevo"
        return "llvm" if self.ours == "nothing" else "both"


def available() -> bool:
    """Whether the LLVM to compare with is here, in the version meant."""
    if shutil.which(LLC) is None:
        return False
    return "version 22." in subprocess.run([LLC, "--version"], capture_output=True, text=True, check=True).stdout


def hazard_samples(target: str, count: int, seed: int) -> list[Sample]:
    """Pairs, with up to three instructions between that concern neither."""
    rng = random.Random(f"{target} hazards {seed}")
    fill = words(target, FILL)
    samples = []
    for _ in range(count):
        first, second = rng.choices(words(target, ANY), k=2)
        chosen = [first, *rng.choices(fill, k=rng.choice((0, 0, 0, 1, 2, 3))), second]
        samples.append(_sample(target, chosen, rng))
    return samples


def sequence_samples(target: str, count: int, seed: int) -> list[Sample]:
    """Three to five vector and scalar ALU instructions, for hazards that need more than two."""
    rng = random.Random(f"{target} sequences {seed}")
    return [_sample(target, rng.choices(words(target, ALU), k=rng.randint(3, 5)), rng) for _ in range(count)]


def loop_samples(target: str, count: int, seed: int) -> list[Sample]:
    """Two to five vector and scalar ALU instructions in a loop, so that the last may stand before the first."""
    rng = random.Random(f"{target} loops {seed}")
    bodies = [_sample(target, rng.choices(words(target, ALU), k=rng.randint(2, 5)), rng) for _ in range(count)]
    return [replace(body, is_loop=True) for body in bodies]


def wait_samples(target: str, count: int, seed: int) -> list[Sample]:
    """One to four memory instructions, then any instruction."""
    rng = random.Random(f"{target} waits {seed}")
    samples = []
    for _ in range(count):
        chosen = [*rng.choices(words(target, MEMORY), k=rng.randint(1, 4)), rng.choice(words(target, ANY))]
        samples.append(_sample(target, chosen, rng))
    return samples


def _sample(target: str, chosen: list[Word], rng: random.Random) -> Sample:
    return Sample(target, tuple(word.name for word in chosen), tuple(filled(word, rng) for word in chosen))


def hazard_disagreements(samples: list[Sample]) -> Iterator[Disagreement]:
    """Samples whose wait states, or whose need for another instruction, the two see differently."""
    target = load_target(samples[0].target)
    for sample, kernel, lines in zip(samples, _kernels(samples, target), _outputs(samples, _HAZARDS), strict=True):
        theirs = _inserted_for_hazards(lines, sample)
        analysis = analyse_hazards(kernel)
        violations = [each for each in analysis.violations if not each.softened]
        ours = _asked(analysis.rules, violations)
        if theirs != ours:
            rules = tuple(sorted({each.rule for each in violations}))
            yield Disagreement(sample, "hazard", theirs, ours, rules)


def _asked(rules: HazardRules, violations: list[Violation]) -> str:
    nops = {each: _states_of_mend(rules, each) for each in violations}
    others = any(states == 0 for states in nops.values())
    return _said(max(nops.values(), default=0), others)


def _states_of_mend(rules: HazardRules, violation: Violation) -> int:
    """Wait states that mend it, 0 if another instruction has to."""
    if violation.needed > violation.found:
        return violation.needed - violation.found
    nop = re.fullmatch(r"s_nop (\d)", getattr(rules.row(violation.rule), "mend", ""))
    return int(nop[1]) + 1 if nop is not None else 0


def _said(states: int, others: bool) -> str:
    parts = [f"{states} wait states"] if states else []
    return " and ".join(parts + (["an instruction"] if others else [])) or "nothing"


def _inserted_for_hazards(lines: list[str], sample: Sample) -> str:
    new = _new_lines(lines, sample)
    nops = [int(line.split("S_NOP")[1].split(",")[0]) + 1 for line in new if "S_NOP" in line]
    return _said(sum(nops), any("S_NOP" not in line for line in new))


def wait_disagreements(samples: list[Sample]) -> Iterator[Disagreement]:
    """Samples in front of whose last instruction the two want other waits."""
    target = load_target(samples[0].target)
    for sample, kernel, lines in zip(samples, _kernels(samples, target), _outputs(samples, _WAITS), strict=True):
        theirs, ours = _their_waits(lines, sample, target), _our_waits(kernel)
        if theirs != ours:
            yield Disagreement(sample, "wait", _waits_said(theirs), _waits_said(ours))


def _waits_said(waits: dict[str, int]) -> str:
    return " ".join(f"{counter}({value})" for counter, value in sorted(waits.items())) or "nothing"


def _their_waits(lines: list[str], sample: Sample, target: Target) -> dict[str, int]:
    """What LLVM waits for anywhere in the sample; of each counter the lowest."""
    waits: dict[str, int] = {}
    for line in _new_lines(lines, sample):
        opcode = _OPCODE.search(line)
        assert opcode is not None
        mnemonic = opcode[1].removesuffix("_soft").lower()
        value = int(re.findall(r"(?<![\w$])\d+", line.split(opcode[1])[1])[-1])
        for counter, most in target.decode_wait(value, mnemonic).items():
            if most is not None:
                waits[counter] = min(waits.get(counter, most), most)
    return waits


def _our_waits(kernel: Kernel) -> dict[str, int]:
    """What we ask for anywhere; where there is an xcnt with each wait put in before the next is asked for."""
    waits: dict[str, int] = {}
    step_by_step = "xcnt" in kernel.target.wait.counters
    asked = _asked_waits(kernel)
    while asked:
        first = min(asked)
        for table in [asked[first]] if step_by_step else asked.values():
            for counter, value in table.items():
                waits[counter] = min(waits.get(counter, value), value)
        if not step_by_step:
            return waits
        kernel = _with_waits(kernel, first, asked[first])
        asked = _asked_waits(kernel)
    for replay in replay_hazards(kernel):
        if replay.needed is not None:
            waits["xcnt"] = min(waits.get("xcnt", replay.needed), replay.needed)
    return waits


def _asked_waits(kernel: Kernel) -> dict[int, dict[str, int]]:
    """The waits that are missing, by the instruction that needs them."""
    analysis = WaitAnalysis(kernel)
    before: dict[int, dict[str, int]] = {}
    for hazard in analysis.hazards:
        table = before.setdefault(hazard.consumer, {})
        counter = analysis.lanes.lanes[hazard.lane].counter
        table[counter] = min(table.get(counter, hazard.age), hazard.age)
    return before


def _with_waits(kernel: Kernel, place: int, waits: dict[str, int]) -> Kernel:
    """The kernel with waits in front of an instruction, one for each counter."""
    (block,) = kernel.blocks
    at = next(index for index, each in enumerate(block.instructions) if each.id == place)
    new = []
    for counter, value in waits.items():
        (decoded,) = decode_code(_wait_code(kernel.target, counter, value), kernel.context)
        new.append(Instruction(_FIRST_WAIT + len(block.instructions) + len(new), decoded))
    return kernel.with_blocks((Block(0, (), (*block.instructions[:at], *new, *block.instructions[at:])),))


def _wait_code(target: Target, counter: str, value: int) -> bytes:
    """A wait of a target that has one instruction for each counter; `s_waitcnt` is not asked for here."""
    code = toolchain().assemble(f"{target.wait_instruction({counter: value})} {value}", Processor(target.name, ""))
    return bytes(ELFFile(BytesIO(code)).get_section_by_name(".text").data())[:4]


def _new_lines(lines: list[str], sample: Sample) -> list[str]:
    """Lines that are in the output and not in the sample; each line of the sample stands for one."""
    left = [opcode[1] for line in sample.lines if (opcode := _OPCODE.search(line.split(" = ")[-1]))]
    new = []
    for line in lines:
        opcode = _OPCODE.search(line.split(" = ")[-1])
        if opcode is None or opcode[1] in ("S_ENDPGM", "S_CBRANCH_SCC1"):
            continue
        if opcode[1] in left:
            left.remove(opcode[1])
        else:
            new.append(line)
    return new


def _module(samples: list[Sample]) -> str:
    heads = "\n".join(f"  define amdgpu_kernel void @f{n}() {{ ret void }}" for n in range(len(samples)))
    return f"--- |\n{heads}\n...\n" + "".join(_function(n, sample) for n, sample in enumerate(samples))


def _function(number: int, sample: Sample) -> str:
    body = "".join(f"    {line}\n" for line in sample.lines)
    if sample.is_loop:
        head = "    successors: %bb.1\n  bb.1:\n    successors: %bb.1, %bb.2\n"
        body = f"{head}{body}    S_CBRANCH_SCC1 %bb.1, implicit $scc\n  bb.2:\n"
    head = f"---\nname: f{number}\nmachineFunctionInfo:\n  isEntryFunction: true\nbody: |\n  bb.0:\n"
    return f"{head}{body}    S_ENDPGM 0\n...\n"


def _llc(samples: list[Sample], *options: str) -> bytes:
    """Raises RuntimeError with llc's words when it refuses the module."""
    command = [LLC, *_ALWAYS, f"-mcpu={samples[0].target}", *options, "-o", "-", "-"]
    done = subprocess.run(command, input=_module(samples).encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode()[:500])
    return done.stdout


def _outputs(samples: list[Sample], passes: str) -> list[list[str]]:
    """The instructions of each function behind the passes."""
    text = _llc(samples, passes).decode()
    parts = re.split(r"^name:\s+f\d+$", text, flags=re.MULTILINE)[1:]
    return [[line for line in part.split("bb.0:")[1].split("\n") if line.startswith("    ")] for part in parts]


def _kernels(samples: list[Sample], target: Target) -> Iterator[Kernel]:
    """The machine code of each function without what the passes insert."""
    image = ELFFile(BytesIO(_llc(samples, *_PLAIN, "-filetype=obj")))
    text = image.get_section_by_name(".text").data()
    symbols = {each.name: each["st_value"] for each in image.get_section_by_name(".symtab").iter_symbols()}
    context = DecodingContext(target, target.default_wave_size)
    descriptor = KernelDescriptor.from_bytes(bytes(64))
    for number, sample in enumerate(samples):
        start, count = symbols[f"f{number}"], len(sample.lines) + 1 + sample.is_loop
        decoded = decode_code(text[start : start + 16 * count], context)[:count]
        instructions = tuple(Instruction(place, each) for place, each in enumerate(decoded))
        yield Kernel("f", target, target.default_wave_size, _blocks(instructions, sample.is_loop), 0, 0, descriptor)


def _blocks(instructions: tuple[Instruction, ...], is_loop: bool) -> tuple[Block, ...]:
    if not is_loop:
        return (Block(0, (), instructions),)
    *body, branch, end = instructions
    return Block(0, ("L",), (*body, replace(branch, target="L"))), Block(1, (), (end,))
