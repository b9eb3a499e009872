"""Reading machine IR: what an order depends on is understood, and everything else comes back byte for byte."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_ir import STORED, stored_module, stored_text, written

from asmevo.compiler.dialect import readable
from asmevo.compiler.errors import MachineIRError
from asmevo.compiler.machine_instruction import parse_instruction
from asmevo.compiler.machine_ir import read_machine_ir
from asmevo.compiler.machine_opcodes import modelled_gpus, opcode_facts
from asmevo.compiler.machine_registers import class_lanes, physical_units, sub_register_lanes
from asmevo.compiler.memory_operand import parse_memory_operand
from asmevo.proposers.scheduling import Kind
from asmevo.target import load_target


@pytest.mark.parametrize(("name", "gpu"), STORED)
def test_a_module_comes_back_byte_for_byte(name: str, gpu: str) -> None:
    text = stored_text(name, gpu, "before")
    module = read_machine_ir(text, "x")
    assert module.with_lines({}) == module.text == text


@pytest.mark.parametrize(("name", "gpu"), STORED)
def test_every_line_of_a_body_is_a_statement_a_header_or_blank(name: str, gpu: str) -> None:
    """Counted another way: by grep over LLVM's own text."""
    text = stored_text(name, gpu, "before")
    body = text[text.index("body:             |") :]
    lines = re.findall(r"^    (?!successors:|liveins:|  )(?=\S)[^;].*$", body, re.MULTILINE)
    module = stored_module(name, gpu)
    assert sum(len(block.statements) for block in module.functions[0].blocks) == len(lines)
    blocks = re.findall(r"^  bb\.(\d+)", body, re.MULTILINE)
    assert [str(block.number) for block in module.functions[0].blocks] == blocks


def test_an_instruction_with_everything() -> None:
    found = parse_instruction(
        "%5:vreg_64, dead $scc = nofpexcept nnan SOME_OP killed %1.sub0, -16, undef %2(tied-def 0), @global + 4, "
        'target-flags(amdgpu-rel32-lo) @"a, b", %bb.3, %stack.0, implicit $exec, implicit-def dead $vcc '
        ":: (dereferenceable load (s64) from %ir.p + 8, align 4, !tbaa !7, addrspace 1), "
        "(store (s8) into %stack.0, addrspace 5)"
    )
    assert (found.opcode, found.flags, found.numbers) == ("SOME_OP", {"nofpexcept", "nnan"}, (-16,))
    shown = [(each.name, each.sub, each.is_def, each.is_dead, each.is_undefined) for each in found.registers]
    assert shown == [
        ("%5", "", True, False, False),
        ("$scc", "", True, True, False),
        ("%1", "sub0", False, False, False),
        ("%2", "", False, False, True),
        ("$exec", "", False, False, False),
        ("$vcc", "", True, True, False),
    ]
    load, store = found.memory
    assert (load.loads, load.stores, load.size, load.base, load.offset, load.address_space) == (
        True, False, 8, "%ir.p", 8, 1,
    )  # fmt: skip
    assert (store.stores, store.size, store.base, store.address_space) == (True, 1, "%stack.0", 5)


@pytest.mark.parametrize(
    ("text", "ordered", "size"),
    [
        ("volatile load (s32) from %ir.p, addrspace 1", True, 4),
        ('load store syncscope("agent") acq_rel (s32) on %ir.p, addrspace 1', True, 4),
        ('load syncscope("agent-one-as") unordered (s32) from %ir.p', False, 4),
        ('"amdgpu-noclobber" load (<4 x s32>) from %ir.p, align 4', False, 16),
        ("store unknown-size into custom \"x\", align 1", False, None),
        ("store (p1) into %ir.p", False, None),
        ("load store monotonic (s64) on `ptr addrspace(1) null`", True, 8),
    ],
)  # fmt: skip
def test_memory_operands(text: str, ordered: bool, size: int | None) -> None:
    found = parse_memory_operand(text)
    assert (found.ordered, found.size) == (ordered, size)


def test_parts_of_registers() -> None:
    assert sub_register_lanes("sub0") == 0b11
    assert sub_register_lanes("sub1_sub2") == 0b111100
    assert sub_register_lanes("hi16") == 0b10
    assert sub_register_lanes("sub1_lo16") == 0b100
    assert class_lanes("vreg_64_align2") == class_lanes("sreg_64_xexec") == 0xF
    assert class_lanes("vgpr_32") == class_lanes("sreg_32_xm0_xexec") == 0b11
    assert class_lanes("areg_1024") == (1 << 64) - 1
    assert physical_units("vcc") == physical_units("vcc_lo") | physical_units("vcc_hi")
    assert physical_units("sgpr4_sgpr5") >= physical_units("sgpr5")
    assert physical_units("vgpr3") > physical_units("vgpr3_lo16")
    assert not physical_units("sgpr3") & physical_units("vgpr3")
    assert not physical_units("sgpr_null")


def test_a_bundle_is_one_statement_and_debug_instructions_stay_with_what_they_follow() -> None:
    body = """
        DBG_VALUE %3, $noreg
        %0:sgpr_32 = S_MOV_B32 1
        DBG_VALUE %0, $noreg
        BUNDLE implicit-def %1, implicit %0 {
          %1:sgpr_32 = S_MOV_B32 %0
          %2:sgpr_32 = S_MOV_B32 internal %1
        }
        S_ENDPGM 0
    """
    module = read_machine_ir(written(body, dict.fromkeys("012", "sgpr_32")), "x")
    statements = module.functions[0].blocks[0].statements
    assert [(each.opcode, len(each.members), len(each.lines)) for each in statements] == [
        ("S_MOV_B32", 1, 2),
        ("BUNDLE", 3, 4),
        ("S_ENDPGM", 1, 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no machine IR"),
        ("just words\n", "no machine IR"),
        ("--- |\n...\n---\nname: f\n...\n", "without a body"),
        ("---\nname: [\nbody: |\n  bb.0:\n...\n", "no YAML"),
        ("---\nalignment: 1\nbody: |\n  bb.0:\n...\n", "without a name"),
        ("---\nname: f\nbody: |\n    S_ENDPGM 0\n...\n", "without blocks"),
        ("---\nname: f\nregisters:\n  - { id: 0, class: strange }\nbody: |\n  bb.0:\n...\n", "unknown register class"),
        ("---\nname: f\nbody: |\n  bb.0:\n    %0 = \n...\n", "no opcode"),
        ("---\nname: f\nbody: |\n  bb.0:\n    BUNDLE {\n...\n", "not closed"),
        ("---\nname: f\nbody: |\n  bb.0:\n    S_NOP (0\n...\n", "not closed"),
        ("---\nname: f\nbody: |\n  bb.0:\n    X_LOAD :: (hello (s32))\n...\n", "no load or store"),
    ],
)
def test_what_is_no_machine_ir_is_said_with_its_place(text: str, words: str) -> None:
    with pytest.raises(MachineIRError, match=words) as caught:
        read_machine_ir(text, "bad.mir")
    assert str(caught.value).startswith("bad.mir")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_machine_ir_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    text = stored_text("lds_reduce", "gfx1100", "before")
    start = text.index("body:")
    at = data.draw(st.integers(start, len(text) - 1))
    end = at + data.draw(st.integers(0, 40))
    damaged = text[:at] + data.draw(st.text(max_size=12)) + text[end:]
    with contextlib.suppress(MachineIRError):
        assert read_machine_ir(damaged, "x").with_lines({}) == damaged


def test_implicit_vcc_is_respelled_where_the_table_says_vcc_and_nowhere_else() -> None:
    """The very instructions that LLVM 22's reader refuses (`missing implicit register operand 'implicit $vcc'`)."""
    text = (
        "    S_CBRANCH_VCCNZ %bb.3, implicit killed $vcc_lo\n"
        "    %1:vreg_64 = nofpexcept V_DIV_FMAS_F64_e64 0, %0, 0, 0, implicit $mode, implicit $vcc_lo, implicit $exec\n"
        "    $vcc_lo = COPY %2, implicit $vcc_lo\n"
        "    %3:sreg_32 = S_AND_B32 $exec_lo, $vcc_lo, implicit-def dead $scc\n"
    )
    assert readable(text, "gfx1100") == text.replace("killed $vcc_lo", "killed $vcc", 1).replace(
        "implicit $vcc_lo, implicit $exec", "implicit $vcc, implicit $exec"
    )


def test_opcodes_have_llvms_facts() -> None:
    """LLVM's SISchedule.td: VMEM 320 cycles from gfx10 on, 80 units before, 32-bit vector work 5."""
    load = opcode_facts("GLOBAL_LOAD_DWORD", "gfx1100")
    assert load is not None
    assert load.cost is not None
    assert (load.kind, load.cost.latency) == (Kind.LOAD, 320)
    old = opcode_facts("GLOBAL_LOAD_DWORD", "gfx942")
    assert old is not None
    assert old.cost is not None
    assert old.cost.latency == 80
    barrier = opcode_facts("S_BARRIER", "gfx1100")
    assert barrier is not None
    assert barrier.kind is Kind.BARRIER
    assert "side_effects" in barrier.flags
    assert opcode_facts("NO_SUCH_OPCODE", "gfx1100") is None
    for gpu in modelled_gpus():
        load_target(gpu)
