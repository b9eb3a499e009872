"""Dual instructions (VOPD): pairs that lose an interlock, and why the assembler refuses a pair.

    hazards.vopd-parity    warning  the two halves read different registers of the same parity in one operand place,
                                    and the instruction right in front writes one of them: on RDNA3 the interlock for
                                    that source may be lost. Low confidence: compilers wrote such pairs.
    hazards.vopd-legality  error    a pair that the target does not have, with the rule it breaks

A legal pair is decoded code; an illegal one exists as text only. LLVM's words for it range from exact to "invalid
instruction", so each refused pair is held against the target's rules (`vopd` in its data), in the order in which a
person would mend them; only lines that LLVM refuses are explained, so a rule can never speak against a legal pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from asmevo.checks.finding import Finding, Severity, named
from asmevo.program.instruction import Instruction, Operand
from asmevo.program.kernel import Kernel
from asmevo.program.registers import RegisterFile
from asmevo.program.statements import mask_comments
from asmevo.target import Target
from asmevo.target.model import VopdFacts
from asmevo.target.opcodes import opcode_mnemonics
from asmevo.toolchain import AssemblyError, Processor, toolchain

_PAIR = re.compile(r"^\s*(?:[\w.$@]+:\s*)*(v_dual_\w+)\s+(.*?)\s*::\s*(\w+)\s+(.*?)\s*$")
_VGPR = re.compile(r"^v\[?(\d+)\]?(?::\d+\])?$")
_SCALAR = re.compile(r"^(?:s\[?\d+.*|ttmp\d+|vcc(?:_lo|_hi)?|exec_lo|exec_hi|m0|null)$")
_INLINE = re.compile(r"^-?(?:[0-9]|[1-5][0-9]|6[0-4])$|^-?(?:0\.5|1\.0|2\.0|4\.0|0\.15915494\d*)$")
_HIGHEST_NEGATIVE_INLINE = 16
_READS_RESULT = ("v_dual_fmac", "v_dual_dot2acc")


def check_dual_issue(kernel: Kernel) -> tuple[Finding, ...]:
    """Pairs of decoded code whose interlock may be lost."""
    facts = kernel.target.vopd
    if facts is None or not facts.loses_interlock_on_parity.value:
        return ()
    return tuple(
        found
        for block in kernel.blocks
        for before, pair in zip(block.instructions, block.instructions[1:], strict=False)
        if "vopd" in pair.flags and "valu" in before.flags
        for found in _parity(kernel, facts, before, pair)
    )


def _parity(kernel: Kernel, facts: VopdFacts, before: Instruction, pair: Instruction) -> Iterator[Finding]:
    masks = (facts.src0_bank_mask.value, facts.src1_bank_mask.value)
    for place, (x, y) in enumerate(zip(*_sources(pair), strict=False)):
        first, second = x.registers, y.registers
        if place >= len(masks) or first is None or second is None:
            continue
        if first.file is not RegisterFile.VGPR or second.file is not RegisterFile.VGPR:
            continue
        banks_differ = (first.first ^ second.first) & masks[place]
        if banks_differ and not (first.first ^ second.first) & 1 and before.writes & (first.mask | second.mask):
            late = " and ".join(str(span) for span in (first, second) if span.mask & before.writes)
            yield Finding(
                rule="hazards.vopd-parity",
                severity=Severity.WARNING,
                kernel=kernel.name,
                message=f"{named(pair)}: src{place}X={first} and src{place}Y={second} differ in bank but share parity, "
                f"and {named(before)} right in front writes {late}; {kernel.target.name} may read one source too early "
                "(low confidence: compilers wrote such pairs)",
                instructions=(pair.id, before.id),
                missing=f"src{place}X and src{place}Y of different parity",
                mend="re-pair the halves, re-colour a source, or put an instruction in between",
                subject=f"src{place}",
            )


def _sources(pair: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The register and constant sources of both halves, literals that are no source place left out."""
    operands = pair.decoded.operands
    commas = pair.text.partition("::")[0].count(",")
    first, second = operands[1 : commas + 1], operands[commas + 2 :]
    return _places(first, pair.mnemonic.partition("::")[0]), _places(second, pair.mnemonic.partition("::")[2])


def _places(sources: tuple[Operand, ...], mnemonic: str) -> tuple[Operand, ...]:
    """v_dual_fmamk has its literal between src0 and src1."""
    return (sources[0], *sources[2:]) if "fmamk" in mnemonic and len(sources) > 2 else tuple(sources)


# --- pairs that the assembler refuses ----------------------------------------------------------------------


def refused_pairs(text: str, target: Target, processor: Processor) -> tuple[tuple[int, Finding], ...]:
    """(line, finding) for every dual instruction of a text that LLVM refuses, lines from 1."""
    found = []
    for number, line in enumerate(mask_comments(text).split("\n"), 1):
        if "::" in line and "v_dual_" in line:
            refused = _refusal(line.strip(), processor)
            if refused is not None:
                found.append((number, _legality(line, target, processor, refused)))
    return tuple(found)


def _refusal(statement: str, processor: Processor) -> str | None:
    """LLVM's words for a statement that it refuses."""
    try:
        toolchain().assemble(f"{statement}\n", processor)
    except AssemblyError as error:
        return error.diagnostics[0].message if error.diagnostics else str(error)
    return None


def _legality(line: str, target: Target, processor: Processor, refused: str) -> Finding:
    why, mend = _explanation(line, target, processor)
    return Finding(
        rule="hazards.vopd-legality",
        severity=Severity.ERROR,
        kernel="",
        message=f"`{line.strip()}` is no dual instruction of {target.name}: {why or refused}",
        missing=why,
        mend=mend,
        subject="vopd",
    )


def _explanation(line: str, target: Target, processor: Processor) -> tuple[str, str]:
    """(what is wrong, how to mend it); empty where no rule is known that the pair breaks."""
    facts, pair = target.vopd, _PAIR.match(line)
    if facts is None:
        return f"{target.name} has no dual instructions", "write the two halves one after the other"
    if "+wavefrontsize64" in processor.features.split(","):
        return "dual instructions need waves of 32", "compile for wave32, or write two instructions"
    if pair is None:
        return "", "write `v_dual_A dst, src0, src1 :: v_dual_B dst, src0, src1`"
    x, y = (pair[1], _split(pair[2])), (pair[3], _split(pair[4]))
    return next(_broken_rules(x, y, target, facts), ("", ""))


_Half = tuple[str, list[str]]


def _split(operands: str) -> list[str]:
    return [each.strip() for each in operands.split(",")]


def _broken_rules(x: _Half, y: _Half, target: Target, facts: VopdFacts) -> Iterator[tuple[str, str]]:
    yield from _bad_opcodes(x, y, target, facts)
    yield from _bad_destinations(x, y, facts)
    yield from _bad_second_source(x, y)
    yield from _bad_banks(x, y, facts)
    yield from _bad_scalars(x, y, facts)


def _bad_opcodes(x: _Half, y: _Half, target: Target, facts: VopdFacts) -> Iterator[tuple[str, str]]:
    known = {each for each in opcode_mnemonics(target.family.value) if each.startswith("v_dual_")}
    for mnemonic, _ in (x, y):
        if mnemonic not in known:
            near = sorted(each for each in known if each.startswith(mnemonic.rpartition("_")[0]))
            mend = f"use {near[0]}" if near else "issue it as an instruction of its own"
            yield f"{target.name} has no {mnemonic}", mend
    if x[0] in facts.y_only.value:
        others = " and ".join(facts.y_only.value)
        if y[0] in facts.y_only.value:
            yield f"{x[0]} is a Y-only opcode (as all of {others}), and so is {y[0]}", "pair them with other opcodes"
        yield (
            f"{x[0]} is a Y-only opcode: it may only be the second half (as {others})",
            f"swap the halves: `{y[0]} {', '.join(y[1])} :: {x[0]} {', '.join(x[1])}`",
        )


def _bad_destinations(x: _Half, y: _Half, facts: VopdFacts) -> Iterator[tuple[str, str]]:
    first, second = _vgpr(x[1][0]), _vgpr(y[1][0])
    if first is not None and second is not None and not (first ^ second) & facts.dst_bank_mask.value:
        parity = "odd" if first & 1 else "even"
        yield (
            f"the destinations v{first} and v{second} are both {parity}, one must be even and the other odd",
            f"write one result to an {'even' if first & 1 else 'odd'} register",
        )


def _bad_second_source(x: _Half, y: _Half) -> Iterator[tuple[str, str]]:
    for mnemonic, operands in (x, y):
        places = _text_places(mnemonic, operands)
        if len(places) > 1 and _vgpr(places[1]) is None:
            yield (
                f"src1 of {mnemonic} is {places[1]}, it must be a VGPR",
                f"swap the sources of {mnemonic}, if it commutes, or move {places[1]} to a VGPR",
            )


def _bad_banks(x: _Half, y: _Half, facts: VopdFacts) -> Iterator[tuple[str, str]]:
    masks = (facts.src0_bank_mask.value, facts.src1_bank_mask.value, facts.src2_bank_mask.value)
    sides = (_text_places(*x), _text_places(*y))
    for place, (one, other, mask) in enumerate(zip(*sides, masks, strict=False)):
        first, second = _vgpr(one), _vgpr(other)
        if first is not None and second is not None and not (first ^ second) & mask:
            banks = f"bank {first & mask} (of {mask + 1})"
            yield (
                f"src{place}X=v{first} and src{place}Y=v{second} lie in the same {banks}",
                "swap the sources of one half, if it commutes, or use a register of another bank",
            )


def _bad_scalars(x: _Half, y: _Half, facts: VopdFacts) -> Iterator[tuple[str, str]]:
    sources = [each for half in (x, y) for each in half[1][1:]]
    scalars = {each for each in sources if _SCALAR.match(each) and each != "null"}
    scalars |= {"vcc_lo" for mnemonic, ops in (x, y) if mnemonic == "v_dual_cndmask_b32" and len(ops) == 3}
    literals = {each for each in sources if _is_literal(each)}
    if len(literals) > facts.max_literals.value:
        yield (
            f"the pair has {len(literals)} different literals ({', '.join(sorted(literals))}), "
            f"it can have {facts.max_literals.value}",
            "move one of them to a register",
        )
    if len(scalars | literals) > facts.max_scalar_operands.value:
        named_ = ", ".join(sorted(scalars | literals))
        yield (
            f"the pair reads {len(scalars | literals)} different SGPRs and literals ({named_}; v_dual_cndmask_b32 "
            f"reads vcc), it can read {facts.max_scalar_operands.value}",
            "move one of them to a VGPR",
        )


def _text_places(mnemonic: str, operands: list[str]) -> list[str]:
    """src0, src1 and (the accumulator, if it is the destination) src2 of one half's text."""
    sources = operands[1:]
    if "fmamk" in mnemonic and len(sources) > 2:
        return [sources[0], sources[2]]
    if "fmaak" in mnemonic:
        return sources[:2]
    accumulator = [operands[0]] if mnemonic.startswith(_READS_RESULT) else []
    return [*sources[:2], *accumulator]


def _vgpr(text: str) -> int | None:
    found = _VGPR.match(text.lstrip("-").strip("|"))
    return int(found[1]) if found else None


def _is_literal(text: str) -> bool:
    """Whether a source takes the literal word: a number that is no inline constant."""
    if not re.match(r"^-?(?:0x)?[0-9a-f.]+$", text, re.IGNORECASE) or _INLINE.match(text):
        return False
    try:
        value = int(text, 0)
    except ValueError:
        return True
    return not -_HIGHEST_NEGATIVE_INLINE <= value <= 64
