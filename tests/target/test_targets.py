"""The target files against independent sources: LLVM's tools, the matrix calculator, LLVM's ELF header."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asmevo.target import (
    Target,
    UnknownTargetError,
    data_files,
    describe,
    load_target,
    loader,
    parse_target_id,
    target_from_elf_flags,
    target_names,
    walk,
)

ROOT = Path(__file__).parents[2]
ENCODINGS = json.loads((ROOT / "tests/data/waitcnt_encodings.json").read_text())["rows"]

# llc 22.1.8 sweep of VGPRs against "; Occupancy": waves and the most VGPRs that still give them.
GCN = "10:24 9:28 8:32 7:36 6:40 5:48 4:64 3:84 2:128 1:256"
CDNA = "8:64 7:72 6:80 5:96 4:128 3:168 2:256 1:512"
NAVI10 = "20:48 18:56 16:64 14:72 12:80 11:88 10:96 9:112 8:128 7:144 6:168 5:200 4:256"
NAVI21 = "16:64 12:80 10:96 9:112 8:128 7:144 6:160 5:192 4:256"
NAVI31 = "16:96 12:120 10:144 9:168 8:192 7:216 6:240 5:256"
OCCUPANCY = {
    "gfx900": GCN, "gfx906": GCN, "gfx908": GCN, "gfx90a": CDNA, "gfx942": CDNA, "gfx950": CDNA,
    "gfx1010": NAVI10, "gfx1030": NAVI21, "gfx1102": NAVI21, "gfx1100": NAVI31, "gfx1151": NAVI31,
    "gfx1200": NAVI31,
    "gfx1201": NAVI31, "gfx1250": NAVI21,
}  # fmt: skip

# AMD matrix instruction calculator, cycles.
CALCULATOR = {
    "gfx908": {"v_mfma_f32_32x32x8f16": 64, "v_mfma_f32_16x16x16f16": 32, "v_mfma_f32_4x4x4f16": 8},
    "gfx90a": {"v_mfma_f32_32x32x8bf16_1k": 64, "v_mfma_f32_16x16x16f16": 32, "v_mfma_f32_4x4x4f16": 8},
    "gfx942": {
        "v_mfma_f32_16x16x16_f16": 16, "v_mfma_f32_32x32x8_f16": 32, "v_mfma_f32_32x32x4_2b_f16": 64,
        "v_mfma_f32_4x4x4_16b_f16": 8, "v_mfma_f32_16x16x4_f32": 32, "v_mfma_f32_32x32x2_f32": 64,
        "v_mfma_f32_16x16x8_xf32": 16, "v_mfma_f32_32x32x4_xf32": 32, "v_mfma_f32_16x16x32_fp8_fp8": 16,
        "v_mfma_f32_32x32x16_fp8_fp8": 32, "v_smfmac_f32_16x16x32_f16": 16, "v_smfmac_f32_32x32x16_f16": 32,
        "v_mfma_f64_16x16x4_f64": 32, "v_mfma_f64_4x4x4_4b_f64": 16,
    },
    "gfx1100": {"v_wmma_f32_16x16x16_f16": 32, "v_wmma_i32_16x16x16_iu4": 16},
    "gfx1201": {
        "v_wmma_f32_16x16x16_f16": 16, "v_wmma_i32_16x16x16_iu8": 8, "v_wmma_f32_16x16x16_fp8_fp8": 8,
        "v_swmmac_f32_16x16x32_f16": 16, "v_swmmac_i32_16x16x64_iu4": 8,
    },
}  # fmt: skip

# EF_AMDGPU_MACH_AMDGCN_* of LLVM 22's BinaryFormat/ELF.h.
MACHINES = {
    "gfx803": 0x2A, "gfx900": 0x2C, "gfx906": 0x2F, "gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C,
    "gfx950": 0x4F, "gfx1010": 0x33, "gfx1030": 0x36, "gfx1100": 0x41, "gfx1102": 0x47, "gfx1151": 0x4A,
    "gfx1200": 0x48, "gfx1201": 0x4E, "gfx1250": 0x49,
}  # fmt: skip

DIALECTS = {
    "gfx942": "gfx942",
    "gfx908+sram-ecc": "gfx908:sramecc+",
    "gfx906+sram-ecc-xnack": "gfx906:sramecc+:xnack-",
    "gfx90a:sramecc+:xnack-": "gfx90a:sramecc+:xnack-",
    "amdgcn-amd-amdhsa--gfx942:xnack-": "gfx942:xnack-",
    "amdgcn-amd-amdhsa--gfx906+xnack": "gfx906:xnack+",
    "amdgpu12.01-amd-amdhsa-unknown-gfx1201": "gfx1201",
    "amdgcn-amd-amdhsa-unknown-gfx90a:sramecc+": "gfx90a:sramecc+",
    "hipv4-amdgcn-amd-amdhsa--gfx1100": "gfx1100",
    ' "GFX1250" ': "gfx1250",
    "gfx940": "gfx942",
    "gfx941:xnack+": "gfx942:xnack+",
}


def test_every_named_target_loads() -> None:
    assert set(target_names()) == set(MACHINES)
    for name in target_names():
        assert load_target(name).name == name
        assert load_target(name) is load_target(f"amdgcn-amd-amdhsa--{name}")


@pytest.mark.parametrize("name", target_names())
def test_every_fact_says_where_it_comes_from(name: str) -> None:
    facts = list(walk(load_target(name)))
    assert len(facts) > 80
    for path, fact in facts:
        assert len(fact.source) > 5, path
        assert fact.known in ("measured", "vendor", "llvm", "aco", "secondhand", "assumed"), path
    own = data_files.read(f"targets/{name}")
    for row in describe(load_target(name)):
        assert row.source
        assert row.known
        if row.group in ("products",):
            assert row.inherited_from is None
    assert own["based_on"] in {fact.inherited_from for _, fact in facts}


def test_inheritance_is_traced_to_the_file_that_wrote_the_number() -> None:
    target = load_target("gfx950")
    assert target.lds.bytes_per_cu.inherited_from is None
    assert target.vgpr.total.inherited_from == "family/gfx90a"
    assert target.limits.max_workgroup_size.inherited_from == "family/gfx8"


@pytest.mark.parametrize(("name", "table"), OCCUPANCY.items())
def test_waves_for_vgprs_is_what_llc_prints(name: str, table: str) -> None:
    target = load_target(name)
    steps = [tuple(map(int, step.split(":"))) for step in table.split()]
    for index, (waves, most) in enumerate(steps):
        assert target.waves_for_vgprs(most) == waves, (waves, most)
        if index + 1 < len(steps):
            assert target.waves_for_vgprs(most + 1) == steps[index + 1][0]
    assert target.waves_for_vgprs(0) == target.max_waves
    assert target.waves_for_vgprs(target.vgpr.max_total.value + 1) == 0


def test_what_was_measured_on_gfx12_is_only_assumed_on_gfx1250() -> None:
    assert load_target("gfx1200").timing["valu_queue_depth"].known == "measured"
    assert load_target("gfx1250").timing["valu_queue_depth"].known == "assumed"
    assert not any(fact.known == "measured" for _, fact in walk(load_target("gfx1250")))


def test_wave64_on_rdna_has_half_the_registers() -> None:
    for name in ("gfx1010", "gfx1030", "gfx1100", "gfx1200"):
        target = load_target(name)
        assert target.vgpr_total(64) * 2 == target.vgpr_total(32)
        assert target.vgpr_granule(64) * 2 == target.vgpr_granule(32)
    with pytest.raises(ValueError, match="no wave size 64"):
        load_target("gfx1250").vgpr_total(64)


def test_waves_for_sgprs_is_what_llc_prints() -> None:
    gfx900 = load_target("gfx900")
    assert [gfx900.waves_for_sgprs(n) for n in (80, 84, 88, 92, 100, 104)] == [10, 9, 9, 8, 8, 7]
    assert [load_target("gfx90a").waves_for_sgprs(n) for n in (80, 100, 104)] == [8, 8, 7]
    assert load_target("gfx1100").waves_for_sgprs(106) == 16


@pytest.mark.parametrize("name", sorted({row["target"] for row in ENCODINGS}))
def test_wait_immediates_are_what_llvm_mc_writes(name: str) -> None:
    for row in ENCODINGS:
        if row["target"] == name:
            check_wait(row)


def counter_maxima(target: Target, mnemonic: str) -> dict[str, int]:
    return {n: target.wait.counters[n].maximum.value for n in target.wait.instructions[mnemonic].value}


def shown(waits: dict[str, int], maxima: dict[str, int]) -> dict[str, int | None]:
    return {name: waits[name] if waits.get(name, most) < most else None for name, most in maxima.items()}


def check_wait(row: dict[str, Any]) -> None:
    target, waits = load_target(row["target"]), row["waits"]
    if "alu" in row["mnemonic"] or "depctr" in row["mnemonic"]:
        most = {n: (1 << width) - 1 for n, (_, width) in depctr_fields(target).items()}
        assert target.encode_depctr(waits) == row["imm"]
        decoded = target.decode_depctr(row["imm"])
    else:
        most = counter_maxima(target, row["mnemonic"])
        assert target.encode_wait(waits, row["mnemonic"]) == row["imm"]
        decoded = target.decode_wait(row["imm"], row["mnemonic"])
    assert decoded == shown(waits, most)


def depctr_fields(target: Target) -> dict[str, tuple[int, int]]:
    assert target.wait.depctr is not None
    return target.wait.depctr.fields.value


def generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc-22 is not installed")
@pytest.mark.parametrize("name", ["gfx90a", "gfx1030", "gfx1100", "gfx1250"])
def test_stored_encodings_are_what_llvm_mc_writes_today(name: str) -> None:
    live = list(generator("waitcnt_encodings").rows(name))
    assert live == [row for row in ENCODINGS if row["target"] == name]
    for row in live:
        check_wait(row)


@given(st.sampled_from(target_names()), st.data())
def test_wait_round_trip(name: str, data: st.DataObject) -> None:
    target = load_target(name)
    mnemonic = data.draw(st.sampled_from(sorted(target.wait.instructions)))
    most = counter_maxima(target, mnemonic)
    waits = data.draw(st.fixed_dictionaries({}, optional={n: st.integers(0, m) for n, m in most.items()}))
    imm = target.encode_wait(waits, mnemonic)
    assert 0 <= imm <= 0xFFFF
    assert target.decode_wait(imm, mnemonic) == shown(waits, most)


@given(st.sampled_from(["gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx1250"]), st.data())
def test_depctr_round_trip(name: str, data: st.DataObject) -> None:
    target = load_target(name)
    most = {n: (1 << width) - 1 for n, (_, width) in depctr_fields(target).items()}
    waits = data.draw(st.fixed_dictionaries({}, optional={n: st.integers(0, m) for n, m in most.items()}))
    decoded = target.decode_depctr(target.encode_depctr(waits))
    assert decoded == shown(waits, most)


def test_wait_instruction_is_chosen_by_its_counters() -> None:
    gfx12 = load_target("gfx1200")
    assert gfx12.wait_instruction({"loadcnt": 0}) == "s_wait_loadcnt"
    assert gfx12.wait_instruction({"loadcnt": 0, "dscnt": 1}) == "s_wait_loadcnt_dscnt"
    assert gfx12.encode_wait({"loadcnt": 1, "dscnt": 2}) == 0x102
    assert load_target("gfx942").wait_instruction({"vmcnt": 3, "lgkmcnt": 0}) == "s_waitcnt"
    with pytest.raises(ValueError, match="together"):
        gfx12.wait_instruction({"kmcnt": 0, "dscnt": 0})
    with pytest.raises(ValueError, match="say which"):
        gfx12.decode_wait(0)
    with pytest.raises(ValueError, match="from 0 to 15"):
        load_target("gfx803").encode_wait({"vmcnt": 16})
    with pytest.raises(ValueError, match="has no loadcnt"):
        load_target("gfx942").encode_wait({"loadcnt": 0})
    with pytest.raises(ValueError, match="no s_waitcnt_depctr"):
        load_target("gfx942").decode_depctr(0)
    with pytest.raises(ValueError, match="no depctr field hold_cnt"):
        load_target("gfx1010").encode_depctr({"hold_cnt": 0})


def test_counters_know_their_events_and_order() -> None:
    assert load_target("gfx942").counters_for("vmem_store") == ("vmcnt",)
    assert load_target("gfx1100").counters_for("vmem_store") == ("vscnt",)
    assert load_target("gfx1200").counters_for("vmem_store") == ("storecnt",)
    assert load_target("gfx1100").counters_for("flat") == ("vmcnt", "lgkmcnt")
    assert load_target("gfx1200").counters_for("flat") == ("loadcnt", "dscnt")
    lgkm = load_target("gfx1100").wait.counters["lgkmcnt"]
    assert lgkm.in_order("lds", "lds")
    assert not lgkm.in_order("smem", "smem")
    assert not lgkm.in_order("lds", "message")
    assert lgkm.in_order("lds", "flat")
    assert load_target("gfx1030").wait.counters["vmcnt"].in_order("vmem_load", "flat")
    assert not load_target("gfx942").wait.counters["vmcnt"].in_order("vmem_load", "flat")
    for name in target_names():
        for counter in load_target(name).wait.counters.values():
            assert set(counter.out_of_order.value) <= set(counter.events.value)


@pytest.mark.parametrize("name", CALCULATOR)
def test_matrix_cycles_agree_with_the_calculator(name: str) -> None:
    target = load_target(name)
    assert {m: target.matrix_cycles(m) for m in CALCULATOR[name]} == CALCULATOR[name]


def test_cdna_passes_follow_the_shape() -> None:
    for name in ("gfx908", "gfx90a"):
        table = load_target(name).matrix_table
        assert table is not None
        for mnemonic, row in table.rows.items():
            if row.kind == "dgemm":
                continue
            shape = next(s for s in ("32x32", "16x16", "4x4") if f"_{s}x" in mnemonic)
            assert row.passes * table.cycles_per_pass == {"32x32": 64, "16x16": 32, "4x4": 8}[shape]


def test_matrix_rows() -> None:
    gfx942, gfx950 = load_target("gfx942"), load_target("gfx950")
    assert gfx942.mfma_passes("v_mfma_f32_16x16x16_f16_e64") == 4
    assert gfx942.mfma_passes("v_mfma_f32_16x16x16f16") == 4
    assert gfx942.mfma_passes("v_add_f32") is None
    assert load_target("gfx1030").mfma_passes("v_mfma_f32_16x16x16_f16") is None
    kinds = {m: gfx942.matrix_row(m) for m in ("v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x8_xf32")}
    assert [row.kind for row in kinds.values() if row is not None] == ["sgemm", "xdl"]
    assert gfx950.mfma_passes("v_mfma_f32_16x16x128_f8f6f4") == 8
    assert gfx950.mfma_passes("v_mfma_f32_16x16x128_f8f6f4", eight_bit=False) == 4
    assert gfx950.mfma_passes("v_mfma_f32_16x16x8_xf32") is None


def llvm_folder(which: str) -> Path:
    run = subprocess.run(["llvm-config-22", which], capture_output=True, text=True, check=True)
    return Path(run.stdout.strip())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("llvm-mca-22") is None, reason="llvm-mca-22 is not installed")
@pytest.mark.parametrize("name", ["gfx908", "gfx90a", "gfx942"])
def test_matrix_table_is_what_llvm_mca_says_today(name: str) -> None:
    rows = generator("matrix_passes").table(llvm_folder("--libdir") / "libLLVM.so", name)
    assert yaml.safe_load("\n".join(rows)) == data_files.read(f"matrix/{name}")["rows"]


def test_machine_values_are_llvms() -> None:
    assert {name: load_target(name).elf.machine.value for name in target_names()} == MACHINES


@pytest.mark.skipif(shutil.which("llvm-config-22") is None, reason="llvm-config-22 is not installed")
def test_machine_values_are_those_of_the_installed_header() -> None:
    header = llvm_folder("--includedir") / "llvm/BinaryFormat/ELF.h"
    if not header.is_file():
        pytest.skip("LLVM's headers are not installed")
    found = re.findall(r"EF_AMDGPU_MACH_AMDGCN_(GFX\w+)\s*=\s*(0x[0-9a-f]+)", header.read_text())
    live = {name.lower(): int(value, 16) for name, value in found}
    assert {name: live[name] for name in MACHINES} == MACHINES


def test_target_from_elf_flags() -> None:
    assert str(target_from_elf_flags(0x74C)) == "gfx942:xnack+"
    assert str(target_from_elf_flags(0xD3F)) == "gfx90a:sramecc+"
    assert str(target_from_elf_flags(0xA3F)) == "gfx90a:sramecc-:xnack-"
    assert str(target_from_elf_flags(0x54C)) == "gfx942"
    assert str(target_from_elf_flags(0x04E)) == "gfx1201"
    with pytest.raises(UnknownTargetError, match="0x45"):
        target_from_elf_flags(0x045)


@pytest.mark.parametrize(("text", "canonical"), DIALECTS.items())
def test_target_id_dialects(text: str, canonical: str) -> None:
    assert str(parse_target_id(text)) == canonical


def test_target_id_features_and_notes() -> None:
    found = parse_target_id("gfx90a:sramecc+:xnack-")
    assert [found.feature(f) for f in ("sramecc", "xnack", "other")] == [True, False, None]
    assert "gfx942" in parse_target_id("gfx940").note
    assert parse_target_id("gfx942").note == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gfx9421", "did you mean gfx942"),
        ("gfx1150", "did you mean gfx1151"),
        ("gfx9-generic", "generic target 'gfx9-generic'"),
        ("gfx9-4-generic", "generic target 'gfx9-4-generic'"),
        ("amdgcn-amd-amdhsa--gfx11-generic", "generic target 'gfx11-generic'"),
        ("sm_90", "unknown GPU target 'sm_90'"),
        ("", "unknown GPU target ''"),
        ("gfx942:xnack", "cannot read ':xnack'"),
        ("gfx942:xnack+!", "cannot read"),
    ],
)
def test_unknown_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(UnknownTargetError, match=re.escape(message)):
        parse_target_id(text)
    assert issubclass(UnknownTargetError, ValueError)


def test_a_target_cannot_be_changed() -> None:
    target = load_target("gfx942")
    with pytest.raises(AttributeError):
        target.wave = load_target("gfx1100").wave
    with pytest.raises(AttributeError):
        target.wave.default.value = 32
    assert target == load_target("gfx942")
    assert len({target, load_target("gfx942")}) == 1


@pytest.mark.parametrize("name", ["gfx942", "gfx1201", "gfx1250"])
def test_loading_is_quick(name: str) -> None:
    data_files.read.cache_clear()
    loader._load.cache_clear()
    start = time.process_time()
    load_target(name)
    assert time.process_time() - start < 0.06


@pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc-22 is not installed")
@pytest.mark.parametrize("name", ["gfx1100", "gfx1151", "gfx1200"])
def test_mov_pair_exemption_is_llvms(name: str) -> None:
    pair = "v_dual_mov_b32 v0, v4 :: v_dual_mov_b32 v1, v8"
    command = ["llvm-mc-22", "-triple=amdgcn", f"-mcpu={name}", "-filetype=null"]
    taken = subprocess.run(command, input=pair, capture_output=True, text=True, check=False).returncode == 0
    vopd = load_target(name).vopd
    assert vopd is not None
    assert vopd.mov_pair_exempt.value is taken


def test_rules_of_the_generations() -> None:
    assert next(name for name in target_names() if load_target(name).vopd is not None) == "gfx1100"
    assert load_target("gfx1030").vopd is None
    gfx12 = load_target("gfx1200")
    assert gfx12.vopd is not None
    assert gfx12.vopd.mov_pair_exempt.value
    assert gfx12.abi.workgroup_ids.value == "ttmp"
    assert load_target("gfx1100").abi.workgroup_ids.value == "sgpr"
    assert load_target("gfx950").lds.bytes_per_cu.value == 163840
    assert load_target("gfx908").vgpr.agprs.value == "separate"
    assert load_target("gfx1010").max_waves == 20
