"""Every kind of constraint in both directions: what it must find, and what it must stay silent about."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmevo.checks.constraints import Violation, constraints_for, refused_forms, violations
from asmevo.checks.documents import DocumentError
from asmevo.program import read_program
from asmevo.program.kernel import Kernel

HEAD = "schema: asmevo.constraints/1\n"


def kernel(code: str, gpu: str = "gfx942", wave_size: int | None = None) -> Kernel:
    text = ".type f,@function\nf:\n" + "\n".join(code.split("; ")) + "\n"
    return read_program(text.encode(), "t.s", gpu, wave_size).kernels[0]


def found(code: str, rules: str = "", gpu: str = "gfx942", tmp_path: Path | None = None) -> list[Violation]:
    """What the built-in set, and over it `rules`, says about some code."""
    files: tuple[str, ...] = ()
    if tmp_path is not None:
        file = tmp_path / "own.yaml"
        file.write_text(HEAD + rules)
        files = (str(file),)
    return list(violations(kernel(code, gpu), constraints_for(gpu, files)))


def places(violations: list[Violation]) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.finding.rule.removeprefix("constraints."), each.finding.instructions) for each in violations]


# (rules, code that breaks them, the finding, code that keeps them)
KINDS = {
    "reserved for writing": (
        "reserved: [{id: x, registers: s7, role: table, reason: it holds the table}]",
        "s_nop 0; s_mov_b32 s7, 0; s_endpgm",
        ("reserved-register", (1,)),
        "s_mov_b32 s6, s7; s_endpgm",
    ),
    "reserved for any use": (
        "reserved: [{id: x, registers: 's[6:7]', access: any, role: table, reason: it holds the table}]",
        "s_mov_b32 s4, s7; s_endpgm",
        ("reserved-register", (0,)),
        "s_mov_b32 s4, s8; s_endpgm",
    ),
    "part of a tuple": (
        "reserved: [{id: x, registers: v4, role: table, reason: it holds the table}]",
        "v_mov_b64 v[4:5], v[2:3]; s_endpgm",
        ("reserved-register", (0,)),
        "v_mov_b64 v[6:7], v[4:5]; s_endpgm",
    ),
    "forbidden instruction": (
        "forbidden: [{id: x, instruction: {mnemonic: 's_sleep*'}, replacement: s_nop, reason: it sleeps}]",
        "s_sleep 1; s_endpgm",
        ("forbidden-instruction", (0,)),
        "s_nop 0; s_endpgm",
    ),
    "forbidden by modifier": (
        "forbidden: [{id: x, instruction: {flags: vmem, modifiers: nt}, replacement: sc1, reason: it streams}]",
        "global_load_dword v0, v[2:3], off nt; s_endpgm",
        ("forbidden-instruction", (0,)),
        "global_load_dword v0, v[2:3], off sc1; s_endpgm",
    ),
    "forbidden neighbour": (
        "forbidden_neighbours: [{id: x, first: {mnemonic: s_setprio}, then: {flags: valu}, within: 2, reason: r}]",
        "s_setprio 1; s_nop 0; v_mov_b32 v0, v1; s_endpgm",
        ("forbidden-neighbour", (2, 0)),
        "s_setprio 1; s_nop 0; s_nop 0; v_mov_b32 v0, v1; s_endpgm",
    ),
    "forbidden neighbour, ignored between": (
        "forbidden_neighbours: [{id: x, first: {mnemonic: s_setprio}, then: {flags: valu}, ignore: {mnemonic: s_nop},"
        " reason: r}]",
        "s_setprio 1; s_nop 0; s_nop 0; v_mov_b32 v0, v1; s_endpgm",
        ("forbidden-neighbour", (3, 0)),
        "s_setprio 1; s_sleep 0; v_mov_b32 v0, v1; s_endpgm",
    ),
    "forbidden neighbour through a loop": (
        "forbidden_neighbours: [{id: x, first: {mnemonic: s_setprio}, then: {flags: valu}, within: 2, reason: r}]",
        "l:; v_mov_b32 v0, v1; s_nop 0; s_setprio 1; s_cbranch_scc1 l; s_endpgm",
        ("forbidden-neighbour", (0, 2)),
        "l:; v_mov_b32 v0, v1; s_setprio 1; s_nop 0; s_cbranch_scc1 l; s_endpgm",
    ),
    "required behind": (
        "required_neighbours: [{id: x, instruction: {mnemonic: s_setprio}, needs: {mnemonic: s_nop}, reason: r}]",
        "s_setprio 1; s_sleep 0; s_nop 0; s_endpgm",
        ("required-neighbour", (0, 1)),
        "s_setprio 1; s_nop 0; s_endpgm",
    ),
    "required behind, at the end of the code": (
        "required_neighbours: [{id: x, instruction: {mnemonic: s_endpgm}, needs: {mnemonic: s_code_end}, reason: r}]",
        "s_nop 0; s_endpgm",
        ("required-neighbour", (1,)),
        "s_nop 0",
    ),
    "required behind, on one path only": (
        "required_neighbours: [{id: x, instruction: {mnemonic: s_setprio}, needs: {mnemonic: s_nop}, within: 2,"
        " reason: r}]",
        "s_setprio 1; s_cbranch_scc1 l; s_nop 0; l:; s_endpgm",
        ("required-neighbour", (0, 3)),
        "s_setprio 1; s_cbranch_scc1 l; s_nop 0; s_endpgm; l:; s_nop 1; s_endpgm",
    ),
    "required before": (
        "required_neighbours: [{id: x, instruction: {mnemonic: s_barrier}, needs: {mnemonic: s_waitcnt},"
        " place: before, reason: r}]",
        "s_waitcnt 0; s_nop 0; s_barrier; s_endpgm",
        ("required-neighbour", (2,)),
        "s_nop 0; s_waitcnt 0; s_barrier; s_endpgm",
    ),
    "required before, on one path only": (
        "required_neighbours: [{id: x, instruction: {mnemonic: s_barrier}, needs: {mnemonic: s_waitcnt},"
        " place: before, within: 2, reason: r}]",
        "s_cbranch_scc1 l; s_waitcnt 0; l:; s_barrier; s_endpgm",
        ("required-neighbour", (2,)),
        "s_waitcnt 0; s_cbranch_scc1 l; l:; s_barrier; s_endpgm",
    ),
    "longest run": (
        "longest_runs: [{id: x, instruction: {mnemonic: s_sleep}, most: 2, reason: r}]",
        "s_sleep 1; s_sleep 2; s_sleep 3; s_endpgm",
        ("longest-run", (2, 0)),
        "s_sleep 1; s_sleep 2; s_nop 0; s_sleep 3; s_endpgm",
    ),
    "longest run over a block border": (
        "longest_runs: [{id: x, instruction: {mnemonic: s_sleep}, most: 2, reason: r}]",
        "s_sleep 1; s_sleep 2; l:; s_sleep 3; s_cbranch_scc1 l; s_endpgm",
        ("longest-run", (2, 0)),
        "s_sleep 1; l:; s_sleep 2; s_cbranch_scc1 l; s_endpgm",
    ),
    "region": (
        "regions: [{id: x, opens: {mnemonic: s_setprio}, closes: {mnemonic: s_sleep}, forbids: {flags: [ds]},"
        " reason: r}]",
        "s_setprio 1; ds_read_b32 v0, v1; s_sleep 0; s_endpgm",
        ("region", (1, 0)),
        "s_setprio 1; s_sleep 0; ds_read_b32 v0, v1; s_endpgm",
    ),
    "register limit": (
        "limits: [{id: x, resource: vgprs, most: 8, reason: r}]",
        "v_mov_b32 v8, v1; s_endpgm",
        ("limit", ()),
        "v_mov_b32 v7, v1; s_endpgm",
    ),
    "scalar limit": (
        "limits: [{id: x, resource: sgprs, most: 8, reason: r}]",
        "s_mov_b32 s8, s1; s_endpgm",
        ("limit", ()),
        "s_mov_b32 s7, vcc_lo; s_endpgm",
    ),
    "occupancy floor": (
        "occupancy: [{id: x, waves_per_simd: 4, reason: r}]",
        "v_mov_b32 v200, v1; s_endpgm",
        ("occupancy", ()),
        "v_mov_b32 v20, v1; s_endpgm",
    ),
    "alignment": (
        "alignment: [{id: x, files: [s], multiple: 4, reason: r}]",
        "s_load_dwordx4 s[4:7], s[2:3], 0x0; s_endpgm",
        ("alignment", (0,)),
        "s_load_dwordx4 s[4:7], s[8:9], 0x0; s_endpgm",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_and_stays_silent(kind: str, tmp_path: Path) -> None:
    rules, bad, (rule, instructions), good = KINDS[kind]
    assert places(found(bad, rules, tmp_path=tmp_path)) == [(rule, instructions)]
    assert found(good, rules, tmp_path=tmp_path) == []


CONDITIONS = {
    "name: g*": False,
    "name: f*": True,
    "kind: kernel": False,
    "kind: function": True,
    "wave_size: 32": False,
    "wave_size: 64": True,
    "float32_denormals: kept": False,  # code without a descriptor: not known, so no condition on it holds
    "scratch: used": False,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_decides_whether_an_edge_holds(condition: str, tmp_path: Path) -> None:
    rules = f"reserved: [{{id: x, registers: s7, role: r, reason: q, when: {{{condition}}}}}]"
    assert bool(found("s_mov_b32 s7, 0; s_endpgm", rules, tmp_path=tmp_path)) is CONDITIONS[condition]


def test_denormals_are_read_from_the_descriptor() -> None:
    text = """
    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    k:
      v_mac_f32 v0, v1, v2
      s_endpgm
    .rodata
    .amdhsa_kernel k
      .amdhsa_next_free_vgpr 4
      .amdhsa_next_free_sgpr 4
      .amdhsa_float_denorm_mode_32 {mode}
    .end_amdhsa_kernel
    """
    rules = {
        mode: [
            (each.edge.entry, each.finding.severity.value)
            for each in violations(
                read_program(text.replace("{mode}", str(mode)).encode(), "t.s").kernels[0], constraints_for("gfx900")
            )
        ]
        for mode in (0, 3)
    }
    assert rules == {0: [], 3: [("mad-flushes-denormals", "note")]}


def test_built_in_trap_registers() -> None:
    assert places(found("s_mov_b32 ttmp3, 0; s_endpgm", gpu="gfx1201")) == [("reserved-register", (0,))]
    assert found("s_mov_b32 s0, ttmp9; s_endpgm", gpu="gfx1201") == []  # a workgroup id
    assert places(found("s_mov_b32 s0, ttmp9; s_endpgm", gpu="gfx90a")) == [("reserved-register", (0,))]


@pytest.mark.parametrize("gpu", ["gfx90a", "gfx1100", "gfx1201"])
def test_llvm_saves_m0_in_a_trap_register_behind_a_trap(gpu: str) -> None:
    saving = "s_mov_b32 ttmp2, m0; s_mov_b32 m0, s0; s_sendmsg sendmsg(MSG_INTERRUPT); s_endpgm"
    assert found(f"s_trap 2; {saving}", gpu=gpu) == []
    assert places(found(saving, gpu=gpu)) == [("reserved-register", (0,))]


RETURN = "s_setpc_b64 s[30:31]"
SAVED = {  # what llc 22 saves in a function that clobbers every register
    "v_mov_b32 v40, 0": True,
    "v_mov_b32 v39, 0": False,
    "v_mov_b32 v48, 0": False,
    "v_mov_b32 v255, 0": True,
    "s_mov_b32 s34, 0": True,
    "s_mov_b32 s40, 0": False,
    "s_mov_b32 s48, 0": True,
    "s_mov_b32 s0, 0": False,
    "scratch_store_dword off, v40, s32; v_mov_b32 v40, 0; scratch_load_dword v40, off, s32": False,
    "s_mov_b32 s4, s34; s_mov_b32 s34, 0; s_mov_b32 s34, s4": False,
    "v_writelane_b32 v40, s30, 0": True,  # keeps the other lanes, saves nothing
}


@pytest.mark.parametrize("code", SAVED)
def test_callee_saved_registers(code: str) -> None:
    rules = [rule for rule, _ in places(found(f"{code}; {RETURN}", gpu="gfx942"))]
    assert rules == (["callee-saved"] if SAVED[code] else [])


def test_callee_saved_registers_do_not_concern_code_that_ends() -> None:
    assert found("v_mov_b32 v40, 0; s_endpgm") == []


def test_one_path_that_saves_is_enough_for_silence() -> None:
    code = f"s_cbranch_scc1 l; s_mov_b32 s4, s34; l:; s_mov_b32 s34, 0; s_mov_b32 s34, s4; {RETURN}"
    assert found(code) == []


def test_m0_while_indexing() -> None:
    inside = "s_set_gpr_idx_on s0, gpr_idx(SRC0); s_mov_b32 m0, s1; v_mov_b32 v0, v1; s_set_gpr_idx_off; s_endpgm"
    behind = "s_set_gpr_idx_on s0, gpr_idx(SRC0); v_mov_b32 v0, v1; s_set_gpr_idx_off; s_mov_b32 m0, s1; s_endpgm"
    assert places(found(inside, gpu="gfx900")) == [("region", (1, 0))]
    assert found(behind, gpu="gfx900") == []


def test_vgprs_that_were_handed_back() -> None:
    message = "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"
    assert places(found(f"{message}; v_mov_b32 v0, 0; s_endpgm", gpu="gfx1100")) == [("region", (1, 0))]
    assert found(f"v_mov_b32 v0, 0; s_nop 0; {message}; s_endpgm", gpu="gfx1100") == []


@pytest.mark.parametrize(("gpu", "length", "silent"), [
    ("gfx1030", 62, True), ("gfx1030", 63, False), ("gfx1100", 31, True), ("gfx1100", 32, False),
])  # fmt: skip
def test_length_of_clauses(gpu: str, length: int, silent: bool) -> None:
    assert (found(f"s_clause {length}; s_endpgm", gpu=gpu) == []) is silent


def test_image_instructions_in_clauses_of_gfx1010() -> None:
    wide = "image_sample v[0:3], [v4, v6, v9], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_3D"
    narrow = "image_sample v[0:3], v[4:6], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_3D"
    assert places(found(f"s_clause 1; {wide}; {wide}; s_endpgm", gpu="gfx1010")) == [
        ("forbidden-neighbour", (1, 0)), ("forbidden-neighbour", (2, 0)),
    ]  # fmt: skip
    assert found(f"s_clause 1; {narrow}; {narrow}; s_endpgm", gpu="gfx1010") == []
    assert found(f"s_clause 1; {wide}; {wide}; s_endpgm", gpu="gfx1030") == []


def test_a_dropped_dpp_form_in_machine_code_is_named_with_its_replacement() -> None:
    code = ".long 0x7e0002fa; .long 0xff014201; s_endpgm"  # v_mov_b32_dpp v0, v1 row_bcast:15
    (violation,) = found(code, gpu="gfx1030")
    assert violation.finding.rule == "constraints.dpp"
    assert "v_permlanex16_b32" in violation.finding.mend
    assert found(code, gpu="gfx900") == []


TEXTS = {
    ("gfx1100", "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf"): "v_permlanex16_b32",
    ("gfx1100", "v_add_f32_dpp v0, v1, v2 wave_shl:1 row_mask:0xf bank_mask:0xf"): "row_shl:1",
    ("gfx1100", "lbl: v_mov_b32_dpp v0, v1 row_newbcast:3 row_mask:0xf bank_mask:0xf"): "row_share",
    ("gfx90a", "v_mov_b32_dpp v0, v1 row_share:3 row_mask:0xf bank_mask:0xf"): "ds_swizzle_b32",
    ("gfx90a", "v_permlanex16_b32 v0, v1, s0, s1"): "ds_bpermute_b32",
    ("gfx1030", "v_permlane64_b32 v0, v1"): "v_readlane_b32",
    ("gfx1030", "v_mac_f32 v0, v1, v2"): "v_fmac_f32",
    ("gfx1100", "v_mov_b32_sdwa v0, v1 dst_sel:DWORD src0_sel:BYTE_0"): "op_sel",
    ("gfx1201", "s_barrier"): "s_barrier_signal",
    ("gfx1201", "global_load_b32 v0, v[2:3], off glc"): "scope:",
    ("gfx942", "global_load_dword v0, v[2:3], off glc"): "sc0",
    ("gfx942", "buffer_wbinvl1"): "buffer_inv",
}
KEPT = (
    ("gfx90a", "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf"),
    ("gfx90a", "v_mov_b32_dpp v0, v1 row_newbcast:3 row_mask:0xf bank_mask:0xf"),
    ("gfx1100", "v_mov_b32_dpp v0, v1 row_share:3 row_mask:0xf bank_mask:0xf"),
    ("gfx1100", "s_nop 0 ; row_bcast:15 would be nice"),
    ("gfx1100", "row_bcast: s_nop 0"),
    ("gfx1030", "v_mac_f32_x: s_nop 0"),
    ("gfx90a", "global_load_dword v0, v[2:3], off glc"),
)


@pytest.mark.parametrize(("gpu", "line"), TEXTS)
def test_text_names_what_the_target_does_not_have(gpu: str, line: str) -> None:
    (place,) = refused_forms(f"\n{line}\n", constraints_for(gpu))
    assert place[0] == 2
    assert TEXTS[gpu, line] in place[1].mend


@pytest.mark.parametrize(("gpu", "line"), KEPT)
def test_text_that_the_target_has_is_not_named(gpu: str, line: str) -> None:
    assert refused_forms(line, constraints_for(gpu)) == ()


def test_a_proof_names_edge_condition_state_and_cause(tmp_path: Path) -> None:
    rules = (
        "reserved:\n- {id: own-table, registers: s7, role: table, reason: it holds the table,\n"
        "   when: {kind: function}}\n"
    )
    (violation,) = found("s_mov_b32 s7, 0; s_endpgm", rules, tmp_path=tmp_path)
    proof = violation.to_dict()
    assert proof["edge"] == {"from": "any instruction", "relation": "writes", "to": "s7 (table)"}
    assert proof["condition"] == "kind is function"
    assert proof["state"] == "`s_mov_b32 s7, 0` (#0) in a function; kind is function"
    assert proof["place"] == f"{tmp_path / 'own.yaml'}:3"
    assert proof["cause"] == (
        "`s_mov_b32 s7, 0` (#0) writes s7, which is reserved (table), and the entry `own-table` of "
        f"{tmp_path / 'own.yaml'}:3 says otherwise, because it holds the table."
    )


def test_own_sets_are_laid_over_the_built_in_one(tmp_path: Path) -> None:
    code = "s_mov_b32 ttmp3, 0; s_endpgm"
    assert found(code, "without: [trap-registers]", "gfx1201", tmp_path) == []
    softer = "reserved: [{id: trap-registers, registers: ttmp0, role: r, reason: q}]"
    assert found(code, softer, "gfx1201", tmp_path) == []
    assert found(code, "dpp: {quad_perm: {supported: true}}", "gfx1201", tmp_path) != []
    with pytest.raises(DocumentError, match=r"own\.yaml:2: without: no inherited entry is called `nothing`"):
        found(code, "without: [nothing]", "gfx1201", tmp_path)


def test_a_set_for_another_target_is_left_out_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(HEAD + "targets: ['gfx11*']\nlimits: [{id: x, resource: vgprs, most: 0, reason: r}]\n")
    graph = constraints_for("gfx942", (str(file),))
    assert graph.limits == ()
    assert graph.notes == (f"{file}: not for gfx942 but for gfx11*, left out",)
    assert len(constraints_for("gfx1100", (str(file),)).limits) == 1


@pytest.mark.parametrize(
    ("rocm", "note"),
    [
        (None, ""),
        ("7.2", ""),
        ("7.2.2", ""),
        ("9.1", "gfx942: no constraint set for ROCm 9.1; the nearest older one, 7.2, is used"),
        ("5.7", "gfx942: no constraint set for ROCm 5.7 or older; the oldest, 7.2, is used"),
    ],
)
def test_the_version_chooses_the_set(rocm: str | None, note: str) -> None:
    assert constraints_for("gfx942", (), rocm).notes == ((note,) if note else ())
