"""Which edges of a constraint graph a kernel walks, and what to say about each.

Edges that one encoding decides are found once for each encoding and block; edges over time by their automata; those
about a launch from the registers and the occupancy of the whole kernel. An edge counts where its condition holds in
the kernel's wave state. Every violation keeps its edge, so that the proof can be printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from asmevo.analysis.occupancy import occupancy
from asmevo.analysis.pressure import register_use
from asmevo.checks.constraints.graph import Compiled, Edge, Hit, InstructionNode, Node, Relation
from asmevo.checks.constraints.matching import Matcher
from asmevo.checks.constraints.model import Reserved
from asmevo.checks.constraints.saved_registers import clobbers
from asmevo.checks.constraints.sequences import Breach, sequence_breaches
from asmevo.checks.constraints.state import WaveState
from asmevo.checks.finding import Finding, Severity
from asmevo.program.dual_halves import dual_name, halves_of
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.program.registers import register_names


class Violation(Struct, frozen=True):
    """A finding with its proof: the edge that was walked, the state it saw, and the root cause in one sentence."""

    finding: Finding
    edge: Edge
    seen: str
    cause: str

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON data."""
        edge = self.edge
        return {
            "rule": edge.rule,
            "entry": edge.entry,
            "edge": {"from": edge.source.words, "relation": edge.relation.value, "to": edge.sink.words},
            "condition": edge.condition,
            "state": self.seen,
            "cause": self.cause,
            "place": edge.place,
        }


def check_constraints(kernel: Kernel, constraints: Compiled) -> tuple[Finding, ...]:
    """All findings about one kernel under a constraint graph, errors first."""
    return tuple(violation.finding for violation in violations(kernel, constraints))


def violations(kernel: Kernel, constraints: Compiled, parent: Kernel | None = None) -> tuple[Violation, ...]:
    """The same with proofs. With a `parent` also what an edit put in against a switch."""
    state = WaveState.of(kernel)
    holds = _holding(constraints, state)
    judge = _Judge(kernel, state)
    found = [*_local(judge, constraints, holds, parent)]
    found += [
        judge.sequence(edge, breach)
        for edge, breach in sequence_breaches(kernel, tuple(e for e in constraints.sequences if e in holds))
    ]
    for edge in constraints.clobbers:
        if edge in holds:
            units = getattr(edge.sink, "units", 0)
            found += [judge.clobber(edge, id_, each) for id_, each in clobbers(kernel, units)]
    for edge in constraints.limits:
        if edge in holds:
            found += judge.launch(edge)
    found.sort(key=lambda violation: violation.finding.severity is not Severity.ERROR)
    return tuple(found)


@lru_cache(maxsize=1 << 8)
def _holding(constraints: Compiled, state: WaveState) -> frozenset[Edge]:
    return frozenset(edge for edge in constraints.edges if state.fulfils(edge.when))


@lru_cache(maxsize=1 << 12)
def _block_hits(constraints: Compiled, instructions: tuple[Instruction, ...]) -> tuple[tuple[Instruction, Hit], ...]:
    """What the instructions of a block walk by themselves; candidates share most blocks with their parent."""
    found: list[tuple[Instruction, Hit]] = []
    for place, each in enumerate(instructions):
        hits = constraints.hits(each.decoded)
        found += [(each, hit) for hit in hits if not _is_spared(hit.edge, instructions, place)]
    return tuple(found)


def _is_spared(edge: Edge, block: tuple[Instruction, ...], place: int) -> bool:
    sparing = edge.data.spared_behind if isinstance(edge.data, Reserved) else None
    return sparing is not None and any(Matcher.of(sparing).matches(each.decoded) for each in block[:place])


def _local(judge: _Judge, constraints: Compiled, holds: frozenset[Edge], parent: Kernel | None) -> Iterator[Violation]:
    for block in judge.kernel.blocks:
        for instruction, hit in _block_hits(constraints, block.instructions):
            if hit.edge not in holds:
                continue
            if hit.edge.relation is not Relation.EDITED_INTO or (
                parent is not None and _is_new(instruction, hit.edge, constraints, parent, judge.kernel)
            ):
                yield judge.local(hit, instruction)


def _is_new(instruction: Instruction, edge: Edge, constraints: Compiled, parent: Kernel, kernel: Kernel) -> bool:
    """Whether an edit made it what it is.

    The same operation on other registers was there before, and so was another form of what the switch covers:
    `v_fmac_f32` for `v_fma_f32` merges nothing. Halves of dual instructions that found other partners merge nothing
    either, as long as the kernel has no more of them than before.
    """
    old = parent.by_id.get(instruction.id)
    dual = [each for each in (instruction, old) if each is not None and "vopd" in each.flags]
    if dual or (old is None and dual_name(instruction.mnemonic, kernel.target.family.value) is not None):
        count = _operation_count(kernel, edge)
        if 0 < count <= _operation_count(parent, edge):
            return False
    if old is None:
        return True
    return old.decoded.shape != instruction.decoded.shape and all(
        hit.edge is not edge for hit in constraints.hits(old.decoded)
    )


def _operation_count(kernel: Kernel, edge: Edge) -> int:
    """How many operations the edge is about, halves of dual instructions counted like single ones."""
    return sum(_block_operations(block.instructions, edge.source) for block in kernel.blocks)


@lru_cache(maxsize=1 << 12)
def _block_operations(instructions: tuple[Instruction, ...], source: Node) -> int:
    if not isinstance(source, InstructionNode):
        return 0
    return sum(source.fits_mnemonic(name) for each in instructions for name in _operations(each))


def _operations(instruction: Instruction) -> list[str]:
    if "vopd" not in instruction.flags:
        return [instruction.mnemonic]
    return [half.mnemonic for half in halves_of(instruction.decoded)]


class _Judge:
    """Turns walked edges into sentences about one kernel."""

    def __init__(self, kernel: Kernel, state: WaveState) -> None:
        self.kernel = kernel
        self.state = state

    def local(self, hit: Hit, instruction: Instruction) -> Violation:
        """An edge that one instruction walks by itself."""
        edge, registers = hit.edge, register_names(hit.units) if hit.units else ""
        name = _name(instruction)
        fact, mend = _LOCAL_WORDS[edge.relation](edge, name, registers)
        return self._violation(edge, fact, mend, (instruction.id,), registers, f"{name} in a {self.state.kind}")

    def clobber(self, edge: Edge, id_: int, units: int) -> Violation:
        """A write of a register that was not saved."""
        registers, name = register_names(units), _name(self.kernel.by_id[id_])
        fact = f"{name} writes the callee-saved {registers}, which nothing saved before"
        mend = f"save {registers} before and restore it before the return, or use another register"
        seen = f"{name} before any read of {registers} in a function"
        return self._violation(edge, fact, mend, (id_,), registers, seen)

    def sequence(self, edge: Edge, breach: Breach) -> Violation:
        """An edge over time."""
        name = _name(self.kernel.by_id[breach.instruction])
        partner = self.kernel.by_id.get(breach.partner)
        fact, mend, seen = _SEQUENCE_WORDS[edge.relation](edge, name, _name(partner), breach.seen)
        ids = (breach.instruction, *((breach.partner,) if partner is not None else ()))
        path = self._path(breach)
        return self._violation(edge, fact, mend, ids, "", seen, path)

    def _path(self, breach: Breach) -> tuple[int, ...]:
        """The blocks of the two instructions."""
        ends = [
            block.index
            for block in self.kernel.blocks
            if any(each.id in (breach.partner, breach.instruction) for each in block.instructions)
        ]
        return tuple(ends) if len(ends) > 1 else (breach.block,)

    def launch(self, edge: Edge) -> Iterator[Violation]:
        """Registers, LDS and occupancy of the whole kernel."""
        if edge.relation is Relation.FALLS_BELOW:
            found = occupancy(self.kernel)
            if found.waves < edge.data.waves_per_simd:
                fact = f"a SIMD holds {found.waves} waves, fewer than {edge.data.waves_per_simd}"
                mend = f"use less of what limits it: {found.limited_by}"
                yield self._violation(edge, fact, mend, (), "occupancy", f"{found.waves} waves a SIMD")
            return
        resource, most = edge.data.resource, edge.data.most
        used = self._used(resource)
        if used > most:
            words = resource.replace("_", " ").replace("lds bytes", "bytes of LDS")
            words = words.replace("vgprs", "VGPRs").replace("agprs", "AGPRs").replace("sgprs", "SGPRs")
            fact = f"uses {used} {words}, more than {most}"
            yield self._violation(edge, fact, f"use {used - most} fewer", (), resource, f"{used} {words} used")

    def _used(self, resource: str) -> int:
        if resource == "lds_bytes":
            return self.kernel.descriptor.group_segment_size if self.kernel.descriptor is not None else 0
        return int(getattr(register_use(self.kernel), resource))

    def _violation(
        self,
        edge: Edge,
        fact: str,
        mend: str,
        instructions: tuple[int, ...],
        subject: str,
        seen: str,
        path: tuple[int, ...] = (),
    ) -> Violation:
        finding = Finding(
            rule=edge.rule,
            severity=Severity(edge.severity),
            kernel=self.kernel.name,
            message=f"{fact}: {edge.reason} [{edge.entry}]",
            instructions=instructions,
            path=path,
            missing=edge.replacement,
            mend=mend,
            subject=f"{edge.entry}:{subject}" if subject else edge.entry,
        )
        conditions = self.state.words(edge.when)
        cause = f"{fact}, and the entry `{edge.entry}` of {edge.place} says otherwise, because {edge.reason}."
        return Violation(finding, edge, f"{seen}; {conditions}", cause)


def _name(instruction: Instruction | None) -> str:
    return f"`{instruction}` (#{instruction.id})" if instruction is not None else "the end of the code"


Words = tuple[str, str]


def _reserved(edge: Edge, name: str, registers: str) -> Words:
    verb = "writes" if edge.relation is Relation.WRITES else "uses"
    return f"{name} {verb} {registers}, which is reserved ({edge.data.role})", "use another register"


def _forbidden(edge: Edge, name: str, registers: str) -> Words:
    return f"{name} may not stand here", edge.replacement and f"use {edge.replacement}"


def _misaligned(edge: Edge, name: str, registers: str) -> Words:
    multiple = edge.data.multiple
    return (
        f"{name} names {registers}, which starts at no multiple of {multiple}",
        f"start it at a multiple of {multiple}",
    )


def _switched_off(edge: Edge, name: str, registers: str) -> Words:
    return f"an edit puts in {name}, and the switch {edge.entry} is off", "leave it as it was"


_LOCAL_WORDS: dict[Relation, Callable[[Edge, str, str], Words]] = {
    Relation.WRITES: _reserved,
    Relation.TOUCHES: _reserved,
    Relation.STANDS_IN: _forbidden,
    Relation.MISALIGNED: _misaligned,
    Relation.EDITED_INTO: _switched_off,
}


def _follows(edge: Edge, name: str, partner: str, seen: int) -> tuple[str, str, str]:
    within = edge.data.within
    fact = f"{name} comes {seen} behind {partner}"
    return fact, f"put at least {within} other instructions between them", f"distance {seen}, allowed above {within}"


def _needs(edge: Edge, name: str, partner: str, seen: int) -> tuple[str, str, str]:
    wanted, place, within = edge.sink.words, edge.data.place, edge.data.within
    near = "directly" if within == 1 else f"within {within} instructions"
    fact = f"{name} has no {wanted} {near} {place}"
    found = f"{partner} stands there" if place == "behind" else f"none among the {within} in front"
    return fact, f"put {wanted} {near} {place} it", found


def _repeats(edge: Edge, name: str, partner: str, seen: int) -> tuple[str, str, str]:
    most = edge.data.most
    fact = f"{name} makes a run of more than {most} {edge.source.words} from {partner}"
    return fact, "put another instruction between them", f"a run of {seen}, allowed {most}"


def _inside(edge: Edge, name: str, partner: str, seen: int) -> tuple[str, str, str]:
    fact = f"{name} stands in the region that {partner} opens"
    return fact, "move it in front of the region or behind it", "the region is open on some path"


_SEQUENCE_WORDS: dict[Relation, Callable[[Edge, str, str, int], tuple[str, str, str]]] = {
    Relation.FOLLOWS: _follows,
    Relation.NEEDS: _needs,
    Relation.REPEATS: _repeats,
    Relation.INSIDE: _inside,
}
