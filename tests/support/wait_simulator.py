"""An oracle for the wait counter analysis: concrete walks with an explicit queue of events.

It shares nothing with `asmevo.analysis` but the decoded registers. What an instruction does to a counter
comes from its printed text alone, the value of a wait from LLVM's printed fields. On a walk each event is
remembered by itself, for ever, until a wait proves it done: a wait for n proves an in-order event done when n
or more younger events of its kind were issued; a wait for 0 proves everything of the counter done. Nothing is
joined, nothing is summed up, so what it reports is a real path on which a register may not be there.
"""

from __future__ import annotations

import random
import re

from msgspec import Struct, field

from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel

_FIELD = re.compile(r"(vmcnt|expcnt|lgkmcnt)\((\d+)\)")
_VMEM = re.compile(r"(buffer|tbuffer|global|scratch|image)_")
_LEGACY = ("gfx8", "gfx9", "gfx90a", "gfx940")
_SPLIT = ("gfx12", "gfx1250")
_MAXIMA = {
    "gfx8": {"vmcnt": 15, "lgkmcnt": 15},
    "gfx9": {"lgkmcnt": 15},
    "gfx90a": {"lgkmcnt": 15},
    "gfx940": {"lgkmcnt": 15},
}


class Event(Struct):
    """Under way in one counter; `registers` may not be touched. `ordered`: one `kind` finishes in order."""

    kind: str
    ordered: bool
    registers: int
    source: int
    younger: int = 0


class Queues(Struct):
    """All counters of one wave on one walk."""

    family: str
    split: bool = False
    counters: dict[str, list[Event]] = field(default_factory=dict)

    def issue(self, counter: str, event: Event) -> None:
        events = self.counters.setdefault(counter, [])
        for other in events:
            other.younger += other.kind == event.kind
        events.append(event)
        most = _MAXIMA.get(self.family, {}).get(counter, 31 if counter == "kmcnt" else 63)
        self.counters[counter] = [e for e in events if not (e.ordered and e.younger >= most)]

    def wait(self, counter: str, value: int) -> None:
        events = self.counters.get(counter, [])
        self.counters[counter] = [e for e in events if value and not (e.ordered and e.younger >= value)]


def _printed_waits(text: str, family: str) -> dict[str, int]:
    """Counter values that LLVM prints."""
    mnemonic, _, rest = text.partition(" ")
    if mnemonic == "s_waitcnt":
        if rest.strip().startswith("0"):
            return {"vmcnt": 0, "lgkmcnt": 0, "expcnt": 0} if int(rest, 0) == 0 else {}
        return {name: int(value) for name, value in _FIELD.findall(rest)}
    if mnemonic == "s_waitcnt_vscnt":
        return {"vscnt": int(rest.split(",")[1], 0)}
    if mnemonic.startswith("s_wait_") and family in _SPLIT:
        names = mnemonic.removeprefix("s_wait_").split("_")
        if mnemonic == "s_wait_idle":
            everything = ("loadcnt", "storecnt", "dscnt", "kmcnt", "samplecnt", "bvhcnt", "expcnt")
            return dict.fromkeys(everything, 0)
        if not all(name.endswith("cnt") for name in names):
            return {}
        value = int(rest, 0)
        return {names[0]: value} if len(names) == 1 else {names[0]: value >> 8 & 63, names[1]: value & 63}
    return {}


def _events(instruction: Instruction, family: str, split: bool) -> list[tuple[str, Event]]:
    text = instruction.text
    mnemonic = text.split(" ")[0]
    first = next((o.registers.mask for o in instruction.decoded.operands[:1] if o.registers is not None), 0)
    load, store, lds = ("loadcnt", "storecnt", "dscnt") if family in _SPLIT else ("vmcnt", "vscnt", "lgkmcnt")
    scalar = "kmcnt" if family in _SPLIT else "lgkmcnt"
    if family in _LEGACY:
        store = "vmcnt"
    if mnemonic.startswith(("s_load", "s_buffer_load", "s_memtime", "s_memrealtime", "s_dcache")):
        return [(scalar, Event("smem", False, first if "dcache" not in mnemonic else 0, instruction.id))]
    if mnemonic.startswith("s_sendmsg"):
        return [(scalar, Event("message", True, 0, instruction.id))]
    if mnemonic.startswith("ds_"):
        result = bool(re.match(r"ds_(read|load|bpermute|permute|swizzle|consume|append|.*_rtn_)", mnemonic))
        return [(lds, Event("lds", True, first if result else 0, instruction.id))]
    result = "_load" in mnemonic or "_sample" in mnemonic or "gather4" in mnemonic
    if "_atomic" in mnemonic:
        result = bool(re.search(r" (glc|sc0)\b|RETURN", text))
    if mnemonic.startswith("flat_"):
        if family == "gfx8" or split:
            return [("vmcnt", Event("vmem", True, first if result else 0, instruction.id))]
        ordered = family not in _LEGACY
        registers = first if result else 0
        memory = Event("vmem" if ordered else "flat", ordered, registers, instruction.id)
        local = Event("lds" if ordered else "flat", ordered, registers, instruction.id)
        return [(load if result else store, memory), (lds, local)]
    if not _VMEM.match(mnemonic) or "_wb" in mnemonic or "_inv" in mnemonic or "gl0" in mnemonic:
        if mnemonic.startswith(("buffer_wbl2", "global_wb")):
            return [(store, Event("vmem", True, 0, instruction.id))]
        counted = mnemonic == "global_inv" or (mnemonic == "buffer_inv" and family == "gfx940")
        return [(load, Event("vmem", True, 0, instruction.id))] if counted else []
    if " lds" in text or "_to_lds" in mnemonic:
        return [(load, Event("vmem", True, 0, instruction.id))]
    kind = "scratch" if not result and mnemonic.startswith("scratch") and family not in _LEGACY else "vmem"
    return [(load if result else store, Event(kind, True, first if result else 0, instruction.id))]


class Violation(Struct, frozen=True):
    """`consumer` touches `registers`, which `producer` may not have written yet."""

    consumer: int
    producer: int
    registers: int


def _step(queues: Queues, instruction: Instruction) -> Violation | None:
    waits = _printed_waits(instruction.text, queues.family)
    for counter, value in waits.items():
        queues.wait(counter, value)
    if waits:
        return None
    issued = _events(instruction, queues.family, queues.split)
    found = None
    in_order_result = issued[0][1].registers if len(issued) == 1 and issued[0][1].ordered else 0
    if queues.family in _SPLIT and not instruction.mnemonic.startswith("ds_"):
        in_order_result = 0
    really_read = 0
    for operand in instruction.decoded.operands:
        tied = operand.written and "_d16" in instruction.mnemonic
        if operand.read and not tied and operand.registers is not None:
            really_read |= operand.registers.mask
    plain = (instruction.reads | instruction.writes) & ~(in_order_result & ~really_read)
    for counter, events in queues.counters.items():
        for event in events:
            touched = plain
            if in_order_result and (counter, event.kind) != (issued[0][0], issued[0][1].kind):
                touched |= in_order_result
            if event.registers & touched:
                found = Violation(instruction.id, event.source, event.registers & touched)
    if instruction.mnemonic.startswith(("s_swappc", "s_call")):
        for counter in queues.counters:
            if counter not in ("vscnt", "storecnt"):
                queues.wait(counter, 0)
    for counter, event in issued:
        queues.issue(counter, event)
    return found


def _onward(kernel: Kernel, block: int, chance: random.Random) -> int | None:
    """A next block by the last instruction's text, or None when the walk ends."""
    last = kernel.blocks[block].instructions[-1] if kernel.blocks[block].instructions else None
    following = block + 1 if block + 1 < len(kernel.blocks) else None
    if last is None or last.mnemonic.startswith(("s_swappc", "s_call")):
        return following
    if last.mnemonic.startswith(("s_endpgm", "s_setpc", "s_code_end")):
        return None
    if last.target is not None:
        taken = kernel.block_of_label.get(last.target)
        return taken if last.mnemonic == "s_branch" else chance.choice([taken, following])
    return following


def _is_split(kernel: Kernel) -> bool:
    """COMPUTE_PGM_RSRC3.TG_SPLIT (AMDGPU backend user guide, gfx90a and gfx942)."""
    asks = kernel.descriptor is not None and kernel.descriptor.rsrc3 >> 16 & 1 == 1
    return asks and kernel.target.family.value in ("gfx90a", "gfx940")


def walk(kernel: Kernel, chance: random.Random, steps: int) -> Violation | None:
    """One random walk from the entry; the first violation on it."""
    queues = Queues(kernel.target.family.value, _is_split(kernel))
    block: int | None = 0
    while block is not None and steps > 0:
        for instruction in kernel.blocks[block].instructions:
            found = _step(queues, instruction)
            if found is not None:
                return found
            steps -= 1
        block = _onward(kernel, block, chance)
    return None


def find_violation(kernel: Kernel, seed: int, walks: int, steps: int) -> Violation | None:
    """The first violation on a number of random walks."""
    chance = random.Random(seed)
    for _ in range(walks):
        found = walk(kernel, chance, steps)
        if found is not None:
            return found
    return None


def replay(family: str, instructions: list[Instruction]) -> tuple[Violation | None, list[int]]:
    """One given walk: its first violation, and for each place where what was issued there is proved done.

    "Done" is the place of the instruction in front of which it is; the walk's length if nothing proves it.
    """
    queues = Queues(family)
    first = None
    done = list(range(len(instructions)))
    under_way: dict[int, tuple[int, Event]] = {}
    for place, instruction in enumerate(instructions):
        before = {id(event) for events in queues.counters.values() for event in events}
        first = first or _step(queues, instruction)
        after = {id(event): event for events in queues.counters.values() for event in events}
        for key in list(under_way):
            if key not in after:
                issued, _ = under_way.pop(key)
                done[issued] = max(done[issued], place)
        for key, event in after.items():
            if key not in before:
                under_way[key] = (place, event)
    for issued, _ in under_way.values():
        done[issued] = len(instructions)
    return first, done
