"""Removal of copies: hand-worked pieces of code, and compiled kernels on the emulator."""

from __future__ import annotations

import pytest
from emulated_launches import launch, program_of
from written_kernels import written

from asmevo.gates import EmulationGate, Pipeline
from asmevo.program.candidate import Candidate
from asmevo.program.copying import is_copy
from asmevo.program.edit import apply_script
from asmevo.program.instruction_text import encode_text
from asmevo.program.kernel import Kernel
from asmevo.proposers import CopyRemoval, Facts
from asmevo.prover import Answer, Prover

STORE = "global_store_b32 v[10:11], {}, off"


def texts(kernel: Kernel) -> list[str]:
    return [instruction.text for instruction in kernel.instructions]


def removed(text: str, gpu: str = "gfx1100") -> list[str] | None:
    """The code after all that is accepted of the first proposal; None if there is none."""
    kernel = written(f"{text}\ns_endpgm", gpu)
    scripts = list(CopyRemoval().propose(Facts(kernel)))
    if not scripts:
        return None
    candidate = Candidate.make(kernel, scripts[0])
    judgement = Pipeline(kernel).judge(candidate)
    assert judgement.accepted, judgement.verdicts[-1].reason
    return texts(candidate.kernel)


def test_a_copy_of_a_value_that_ends_there_goes() -> None:
    found = removed(f"v_add_nc_u32 v0, 1, v5\nv_mov_b32 v1, v0\n{STORE.format('v1')}")
    assert found is not None
    assert not any("v_mov" in text for text in found)


def test_a_copy_whose_original_lives_on_unchanged_goes() -> None:
    text = f"v_add_nc_u32 v0, 1, v5\nv_mov_b32 v1, v0\n{STORE.format('v1')}\n{STORE.format('v0')}"
    found = removed(text)
    assert found is not None
    assert not any("v_mov" in text for text in found)
    assert found.count("global_store_b32 v[10:11], v0, off") == 2


def test_a_copy_of_what_changes_while_the_copy_lives_stays() -> None:
    text = (
        f"v_add_nc_u32 v0, 1, v5\nv_mov_b32 v1, v0\nv_fmac_f32 v0, v5, v6\n{STORE.format('v1')}\n{STORE.format('v0')}"
    )
    assert removed(text) is None


def test_a_copy_that_is_changed_while_the_original_lives_stays() -> None:
    text = (
        f"v_add_nc_u32 v0, 1, v5\nv_mov_b32 v1, v0\nv_fmac_f32 v1, v5, v6\n{STORE.format('v1')}\n{STORE.format('v0')}"
    )
    assert removed(text) is None


def test_a_copy_around_a_loop_goes() -> None:
    """v1 takes over from v0 behind the addition; both can be one register, over the back edge, too."""
    text = (
        "v_mov_b32 v1, 0\nL:\nv_add_nc_u32 v0, 3, v1\nv_mov_b32 v1, v0\ns_cbranch_vccnz L\n"
        "global_store_b32 v[10:11], v1, off"
    )
    found = removed(text)
    assert found is not None
    assert [text for text in found if "v_mov" in text] == ["v_mov_b32_e32 v0, 0"] or "v_mov_b32_e32 v1, 0" in found
    assert len(found) == 5


def test_scalar_copies_go_too() -> None:
    text = "s_add_u32 s4, s8, s9\ns_mov_b32 s5, s4\nv_mov_b32 v1, s5\n" + STORE.format("v1")
    found = removed(text)
    assert found is not None
    assert not any("s_mov" in text for text in found)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("v_mov_b32 v0, v1", True),
        ("v_mov_b32_e64 v0, v1", True),
        ("v_mov_b32 v0, s1", True),
        ("s_mov_b64 s[0:1], vcc", True),
        ("v_mov_b32 v0, 1.0", False),
        ("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf", False),
        ("s_mov_b32 s0, src_scc", False),
        ("v_mov_b16 v0.l, v1.l", False),
        ("v_cndmask_b32 v0, v1, v1, vcc_lo", False),
    ],
)
def test_what_a_copy_is(text: str, answer: bool) -> None:
    assert is_copy(encode_text(text, written("s_endpgm", "gfx1100").context)) is answer


def test_the_prover_sees_through_copies_only_where_they_were_made() -> None:
    """Under another EXEC the copy holds its old value in the lanes that were off."""
    head = "v_add_nc_u32 v0, 1, v5\nv_add_nc_u32 v1, 2, v5\ns_mov_b32 s0, exec_lo\ns_mov_b32 exec_lo, s1\n"
    tail = "s_mov_b32 exec_lo, s0\nglobal_store_b32 v[10:11], {}, off\ns_endpgm"
    parent = written(f"{head}v_mov_b32 v1, v0\n{tail.format('v1')}", "gfx1100")
    through = written(f"{head}v_mov_b32 v1, v0\n{tail.format('v0')}", "gfx1100")
    assert Prover(parent).prove(through).answer is Answer.DIFFERENT
    inside = "v_mov_b32 v1, v0\nglobal_store_b32 v[10:11], {}, off\n"
    same = [written(f"{head}{inside.format(name)}{tail.format('v5')}", "gfx1100") for name in ("v1", "v0")]
    assert Prover(same[0]).prove(same[1]).answer is Answer.EQUIVALENT


@pytest.mark.parametrize(("name", "target"), [("prefix_sum", "gfx90a")])
def test_compiled_kernels_lose_copies_and_compute_the_same(name: str, target: str) -> None:
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    pipeline, emulation = Pipeline(kernel), EmulationGate(program, kernel, manifest)
    script = next(iter(CopyRemoval().propose(Facts(kernel))))
    candidate = Candidate.make(kernel, script)
    judgement = pipeline.judge(candidate)
    assert judgement.accepted, judgement.verdicts[-1].reason
    before, after = (sum(is_copy(i.decoded) for i in each.instructions) for each in (kernel, candidate.kernel))
    assert after < before
    verdict = emulation.judge(candidate)
    assert verdict.accepted, verdict.reason


def test_the_same_kernel_gives_the_same_scripts() -> None:
    kernel = program_of("prefix_sum", "gfx90a").select()[0]
    one, other = (list(CopyRemoval().propose(Facts(kernel))) for _ in range(2))
    assert one == other
    assert all(len(apply_script(kernel, script).instructions) < len(kernel.instructions) for script in one)
