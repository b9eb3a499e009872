"""Each gate alone: what it must refuse and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_programs import fresh_kernels
from machine_ir import needs_llvm
from written_kernels import COMPILED, compiled_kernels, written

from asmevo.gates import Level, Pipeline, TimingGate
from asmevo.program import open_program
from asmevo.program.candidate import Candidate
from asmevo.program.edit import Delete, EditScript, Insert, Move, Replace
from asmevo.program.errors import EditError
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel


@pytest.fixture(scope="module")
def matmul() -> Kernel:
    return open_program(COMPILED / "gfx942" / "matmul_f16.hsaco").select()[0]


def script(kernel: Kernel, *edits: Move | Replace | Insert | Delete) -> EditScript:
    return EditScript(base=kernel.hash, kernel=kernel.name, edits=edits)


def judged(kernel: Kernel, *edits: Move | Replace | Insert | Delete) -> tuple[str, str]:
    """(gate that decided, its reason); ("", "") when all accepted."""
    judgement = Pipeline(kernel).judge(Candidate.make(kernel, script(kernel, *edits)))
    last = judgement.verdicts[-1]
    return ("", "") if judgement.accepted else (last.gate, last.reason)


def first(kernel: Kernel, mnemonic: str) -> int:
    return next(i.id for i in kernel.instructions if i.mnemonic.startswith(mnemonic))


def code(kernel: Kernel, text: str) -> dict[str, str]:
    return {"code": encode_text(text, kernel.context).code.hex(), "text": text}


def test_nothing_changed_passes(matmul: Kernel) -> None:
    assert judged(matmul) == ("", "")


def test_assemble_refuses_an_encoding_that_does_not_decode(matmul: Kernel) -> None:
    target = first(matmul, "v_add_u32")
    gate, reason = judged(matmul, Replace(id=target, code="ffffffff", text="?"))
    assert gate == "assemble"
    assert "ffffffff" in reason


def test_assemble_refuses_more_than_one_instruction(matmul: Kernel) -> None:
    with pytest.raises(EditError, match="2 instructions"):
        Candidate.make(matmul, script(matmul, Replace(id=5, code="000080bf000080bf", text="two")))


def test_assemble_sees_changes_that_the_script_does_not_name(matmul: Kernel) -> None:
    honest = Candidate.make(matmul, script(matmul, Delete(id=first(matmul, "s_waitcnt"), text="")))
    hidden = Candidate(matmul, script(matmul), honest.kernel)
    verdict = Pipeline(matmul).judge(hidden).verdicts[-1]
    assert verdict.gate == "assemble"
    assert "does not name" in verdict.reason


def test_waits_refuse_a_lost_wait_and_name_it(matmul: Kernel) -> None:
    gate, reason = judged(matmul, Delete(id=first(matmul, "s_waitcnt"), text=""))
    assert gate == "waits"
    assert "s_load_dword" in reason


def test_waits_refuse_an_lds_access_that_was_settled_before_a_barrier() -> None:
    """Loads from global memory are another matter: tests/analysis/test_quiet_points.py."""
    found = 0
    for kernel in compiled_kernels():
        copies = any("lds_dma" in each.flags for each in kernel.instructions)
        for block in kernel.blocks:
            for wait, barrier in zip(block.instructions, block.instructions[1:], strict=False):
                settles = wait.mnemonic == "s_waitcnt" and (copies or "lgkmcnt" in wait.text)
                if barrier.mnemonic == "s_barrier" and settles:
                    gate, _ = judged(kernel, Move(id=wait.id, after=barrier.id))
                    found += 1
                    assert gate == "waits", (kernel.name, kernel.target.name, wait.id)
    assert found >= 50


@needs_llvm
def test_waits_refuse_a_lost_wait_for_translation(tmp_path: Path) -> None:
    """Every s_wait_xcnt that LLVM puts in protects registers which a replay reads again, unless another wait does."""
    refused = kept = 0
    for kernel in fresh_kernels("gfx1250", ("-O3",), tmp_path):
        for wait in kernel.instructions:
            if wait.mnemonic == "s_wait_xcnt":
                gate, reason = judged(kernel, Delete(id=wait.id, text=""))
                refused += gate == "waits" and "a replay would read the new value" in reason
                kept += gate == ""
    assert refused >= 10, (refused, kept)


@pytest.mark.parametrize(
    ("gpu", "features", "load"),
    [
        ("gfx1250", "", "s_load_b64 {}, s[4:5], 0x0"),
        ("gfx90a", "+xnack", "s_load_dwordx2 {}, s[4:5], 0x0"),
    ],
)
def test_waits_refuse_a_load_over_its_own_address_where_it_may_be_replayed(gpu: str, features: str, load: str) -> None:
    kernel = written(f"{load.format('s[6:7]')}\ns_endpgm", gpu, features)
    own = Replace(id=0, **code(kernel, load.format("s[4:5]")))
    assert judged(kernel, own)[0] == "waits"
    assert judged(kernel, Replace(id=0, **code(kernel, load.format("s[8:9]"))))[0] != "waits"


def test_hazards_refuse_a_lost_no_op() -> None:
    refused = 0
    for kernel in compiled_kernels():
        if kernel.target.name not in ("gfx90a", "gfx942", "gfx950"):
            continue
        for instruction in kernel.instructions:
            if instruction.mnemonic == "s_nop":
                refused += judged(kernel, Delete(id=instruction.id, text=""))[0] == "hazards"
    assert refused >= 10


def test_hazards_refuse_a_pair_that_may_lose_its_interlock() -> None:
    """RDNA3: sources of one parity in both halves, and the instruction right in front writes one of them."""
    pair = "v_dual_add_f32 v6, v1, v2 :: v_dual_mul_f32 v7, v3, v4"
    kernel = written(f"v_mov_b32_e32 v3, v9\nv_mov_b32_e32 v8, v9\n{pair}\nv_mov_b32_e32 v5, v9\ns_endpgm", "gfx1100")
    gate, reason = judged(kernel, Move(id=1, after=2))
    assert (gate, "may read one source too early" in reason) == ("hazards", True)
    assert judged(kernel, Move(id=1, before=0))[0] == "hazards"
    assert judged(kernel, Move(id=3, before=0))[0] != "hazards"


def test_resources_refuse_a_register_that_is_not_allocated(matmul: Kernel) -> None:
    target = first(matmul, "v_add_u32")
    gate, reason = judged(matmul, Replace(id=target, **code(matmul, "v_add_u32_e32 v200, 1, v200")))
    assert gate == "resources"
    assert "v200" in reason


def test_equivalence_refuses_another_constant(matmul: Kernel) -> None:
    target = next(i for i in matmul.instructions if i.text.startswith("v_or_b32_e32") and ", 32, " in i.text)
    changed = target.text.replace(", 32, ", ", 16, ")
    assert judged(matmul, Replace(id=target.id, **code(matmul, changed)))[0] == "equivalence"


def test_draft_leaves_equivalence_out_and_says_so(matmul: Kernel) -> None:
    names = ["assemble", "constraints", "waits", "hazards", "resources"]
    assert [gate.name for gate in Pipeline(matmul, Level.DRAFT).gates] == names
    assert [gate.name for gate in Pipeline(matmul).gates][-1] == "equivalence"


def test_a_finding_of_the_parent_does_not_count_against_a_candidate(matmul: Kernel) -> None:
    broken = Candidate.make(matmul, script(matmul, Delete(id=first(matmul, "s_waitcnt"), text=""))).kernel
    # The broken kernel as a parent: an unrelated legal change passes, a further lost wait does not.
    other = [i.id for i in broken.instructions if i.mnemonic == "s_waitcnt"]
    assert judged(broken)[0] == ""
    assert judged(broken, Delete(id=other[1], text=""))[0] == "waits"


def test_preloaded_arguments_pin_the_second_entry(matmul: Kernel) -> None:
    assert matmul.descriptor is not None
    assert matmul.descriptor.field("kernarg_preload_length") > 0
    padding = next(i for i in matmul.instructions if i.mnemonic == "s_nop")
    gate, reason = judged(matmul, Delete(id=padding.id, text=""))
    assert gate == "equivalence"
    assert "256 bytes" in reason


def test_timing_wants_a_gain(matmul: Kernel) -> None:
    gate = TimingGate(matmul)
    assert not gate.judge(Candidate.make(matmul, script(matmul))).accepted
    loop = next(b for b in matmul.blocks if any("mfma" in i.mnemonic for i in b.instructions))
    slower = tuple(Insert(id=10_000 + n, before=loop.instructions[1].id, **code(matmul, "s_nop 7")) for n in range(4))
    verdict = gate.judge(Candidate.make(matmul, script(matmul, *slower)))
    assert not verdict.accepted
    assert "a model" in verdict.reason


def test_scripts_are_for_one_version(matmul: Kernel) -> None:
    with pytest.raises(EditError, match="another version"):
        Candidate.make(matmul, EditScript(base="0" * 64, kernel=matmul.name, edits=()))
