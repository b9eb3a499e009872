"""A region of machine IR as a scheduling problem: what the agents see (`proposers.scheduling.Region`).

Latencies are LLVM's, in its units; a data dependence costs the latency of what makes the value. Generic copies cost
what the move costs that they become. Values are the dwords of virtual registers; what is in physical registers
already weighs the same in every order.
"""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.compiler.dependences import Dependence, Tie
from asmevo.compiler.lanes import LaneAccess, Lanes
from asmevo.compiler.machine_ir import MachineFunction, Statement
from asmevo.compiler.machine_opcodes import Cost, opcode_facts
from asmevo.compiler.machine_registers import LANES_PER_DWORD, is_vector_class
from asmevo.compiler.regions import MachineRegion
from asmevo.compiler.reordering import ScheduledFunction
from asmevo.proposers.scheduling import Kind, Link, Node, Region, Value, number_values

_COPIES = {"COPY", "PRED_COPY"}
_VECTOR_MOVE, _SCALAR_MOVE = "V_MOV_B32_e32", "S_MOV_B32"
_DWORD = (1 << LANES_PER_DWORD) - 1
_VGPR, _SGPR = Value(vgprs=1), Value(sgprs=1)

_Dword = tuple[str, int]


def problem_of(scheduled: ScheduledFunction, region: MachineRegion) -> Region:
    """The problem; positions are places in the region."""
    statements, accesses = region.statements, scheduled.accesses(region)
    live_out = scheduled.flow.live_after(region.block, region.stop - 1)
    dwords = [(list(_dwords(each.reads)), list(_dwords(each.writes))) for each in accesses]
    sizes = {
        dword: _VGPR if is_vector_class(region.function.classes[dword[0]]) else _SGPR
        for reads, writes in dwords
        for dword in (*reads, *writes)
    }
    numbered = number_values(dwords, sizes, _dwords(live_out))
    nodes = []
    for position, (statement, access, values) in enumerate(zip(statements, accesses, numbered.accesses, strict=True)):
        kind, cost, meta = _work(statement, access, region.function, scheduled.gpu)
        nodes.append(
            Node(
                position=position,
                opcode=statement.opcode,
                kind=kind,
                latency=cost.latency,
                issue=0 if meta else len(statement.members),
                unit=cost.unit if cost.held > 1 else "",
                busy=cost.held if cost.held > 1 else 0,
                reads=values[0],
                writes=values[1],
            )
        )
    links = tuple(_links(scheduled.ties(region), nodes))
    return Region(region.name, tuple(nodes), links, numbered.values, numbered.live_in, numbered.live_out)


def _dwords(lanes: Lanes) -> Iterator[_Dword]:
    for name, part in lanes.items():
        number = 0
        while part:
            if part & _DWORD:
                yield name, number
            part >>= LANES_PER_DWORD
            number += 1


def _links(ties: list[Dependence], nodes: list[Node]) -> Iterator[Link]:
    """One link for each pair, as long as the longest tie between them."""
    cycles: dict[tuple[int, int], int] = {}
    for tie in ties:
        pair = (tie.before, tie.after)
        wait = nodes[tie.before].latency if tie.tie is Tie.DATA else 0
        cycles[pair] = max(cycles.get(pair, 0), wait)
    return (Link(before, after, wait) for (before, after), wait in cycles.items())


def _work(statement: Statement, access: LaneAccess, function: MachineFunction, gpu: str) -> tuple[Kind, Cost, bool]:
    """(what sort, what it costs, whether nothing is left of it in the final code)."""
    opcode = statement.opcode
    if opcode in _COPIES:
        vector = any(is_vector_class(function.classes[name]) for name in access.writes)
        opcode = _VECTOR_MOVE if vector else _SCALAR_MOVE
    facts = opcode_facts(opcode, gpu)
    none = Cost(0, "", 0)
    if facts is None:
        return Kind.OTHER, none, False
    return facts.kind, facts.cost or none, "meta" in facts.flags
