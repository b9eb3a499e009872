"""LDS addresses that share a register: fewer additions, the same bytes, and nothing where it may not be."""

from __future__ import annotations

import re

import pytest
from emulated_launches import all_pairs, launch, program_of
from written_kernels import written

from asmevo.gates import EmulationGate, Pipeline, TimingGate
from asmevo.program.candidate import Candidate
from asmevo.program.edit import apply_script
from asmevo.program.kernel import Kernel
from asmevo.proposers import Facts
from asmevo.proposers.lds_bases import LdsBases
from asmevo.prover import KernelProver, Outcome

HEAD = "v_lshlrev_b32_e32 v1, 2, v0\n"
FAR = """v_add_u32_e32 v2, 0x1100, v1
v_add_u32_e32 v3, 0x1140, v1
v_add_u32_e32 v4, 0x1200, v1
"""
READS = """ds_read2_b32 v[6:7], v2 offset1:1
ds_read2_b32 v[8:9], v3 offset0:2 offset1:4
ds_read2_b32 v[10:11], v4 offset1:1
"""
TAIL = """s_waitcnt lgkmcnt(0)
global_store_dwordx2 v1, v[6:7], s[0:1]
global_store_dwordx2 v1, v[8:9], s[0:1] offset:8
global_store_dwordx2 v1, v[10:11], s[0:1] offset:16
s_endpgm"""


def made(text: str, gpu: str = "gfx90a") -> tuple[Kernel, Kernel | None]:
    """A kernel, and what is proposed for it."""
    kernel = written(text, gpu)
    scripts = list(LdsBases().propose(Facts(kernel)))
    return kernel, apply_script(kernel, scripts[0]) if scripts else None


def lines(kernel: Kernel, *starts: str) -> list[str]:
    """The texts of the instructions that begin so, each encoding's size left out."""
    return [re.sub("_e(32|64)", "", each.text) for each in kernel.instructions if each.text.startswith(starts)]


def proved(kernel: Kernel, version: Kernel) -> bool:
    return KernelProver(kernel).prove(version).outcome is Outcome.PROVED


def test_addresses_near_each_other_become_one() -> None:
    """The base is too far away for eight bits of dwords; 0x40 and 0x100 are 16 and 64 of them behind the first."""
    kernel, version = made(HEAD + FAR + READS + TAIL)
    assert version is not None
    assert lines(version, "v_add", "ds_read") == [
        "v_add_u32 v2, 0x1100, v1",
        "ds_read2_b32 v[6:7], v2 offset1:1",
        "ds_read2_b32 v[8:9], v2 offset0:18 offset1:20",
        "ds_read2_b32 v[10:11], v2 offset0:64 offset1:65",
    ]
    assert proved(kernel, version)


def test_where_the_base_is_near_enough_no_addition_is_left() -> None:
    """One offset has 16 bits of bytes, and stores have their address first."""
    reads = "ds_read_b32 v6, v2 offset:4\nds_write_b32 v3, v0 offset:8\nds_read_b64 v[8:9], v4\nv_mov_b32 v7, 0\n"
    kernel, version = made(HEAD + FAR + reads + "v_mov_b32 v10, 0\nv_mov_b32 v11, 0\n" + TAIL)
    assert version is not None
    assert lines(version, "v_add", "ds_") == [
        f"ds_read_b32 v6, v1 offset:{0x1104}",
        f"ds_write_b32 v1, v0 offset:{0x1148}",
        f"ds_read_b64 v[8:9], v1 offset:{0x1200}",
    ]
    assert proved(kernel, version)


def test_an_addition_of_nothing_goes_where_its_base_is_still_there() -> None:
    """What is added to the start of LDS is often 0; where the base is another one by then, the sum is its copy."""
    text = f"""{HEAD}v_add_u32_e32 v2, 0, v1
{{between}}ds_read2_b32 v[6:7], v2 offset0:2 offset1:3
s_waitcnt lgkmcnt(0)
global_store_dwordx2 v1, v[6:7], s[0:1]
s_endpgm"""
    kernel, version = made(text.format(between=""))
    assert version is not None
    assert lines(version, "v_add", "ds_read") == ["ds_read2_b32 v[6:7], v1 offset0:2 offset1:3"]
    assert proved(kernel, version)
    assert made(text.format(between="v_lshlrev_b32_e32 v1, 3, v0\n"))[1] is None


def test_a_common_address_finds_another_register_where_its_own_is_written() -> None:
    """v2 gets a loaded value before the last access; v3 is free from the first addition on."""
    reads = READS.replace("v[6:7]", "v[2:3]").replace("v3 offset0:2", "v5 offset0:2")
    text = HEAD + FAR.replace("v3", "v5") + reads + TAIL.replace("v[6:7]", "v[2:3]")
    kernel, version = made(text)
    assert version is not None
    (addition,) = lines(version, "v_add")
    assert addition == "v_add_u32 v5, 0x1100, v1"
    assert lines(version, "ds_read")[0] == "ds_read2_b32 v[2:3], v5 offset1:1"
    assert proved(kernel, version)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0x1140", "0x1142"),  # no multiple of the access's unit away
        ("0x1140", "0x1900"),  # too far
        ("v_add_u32_e32 v3, 0x1140, v1", "v_add_u32_e32 v3, 0x1140, v0"),  # another base
        ("v_add_u32_e32 v3", "v_lshlrev_b32_e32 v1, 3, v0\nv_add_u32_e32 v3"),  # the base is another one by then
        ("v_add_u32_e32 v3", "s_mov_b64 exec, s[4:5]\nv_add_u32_e32 v3"),  # in other lanes
        ("s_endpgm", "global_store_dword v1, v3, s[0:1] offset:32\ns_endpgm"),  # the sum is needed elsewhere
        ("v3 offset0:2 offset1:4", "v3 offset0:2 offset1:4 gds"),  # another memory
    ],
)
def test_what_is_left_alone(old: str, new: str) -> None:
    """Two additions of which one cannot go: sharing would save nothing."""
    two = HEAD + FAR.replace("v_add_u32_e32 v4, 0x1200, v1\n", "") + READS.replace("v4", "v0") + TAIL
    assert made(two, "gfx908")[1] is not None
    assert old in two
    assert made(two.replace(old, new), "gfx908")[1] is None


@pytest.mark.parametrize("free", [False, True])
def test_no_register_no_proposal(free: bool) -> None:
    """Each addition's register gets what is loaded, the base is another one by then, and a function keeps to what it
    names, v5 among it or not."""
    text = f"""{HEAD}{FAR}v_lshlrev_b32_e32 v1, 3, v0
ds_read_b32 v2, v2
ds_read_b32 v3, v3
ds_read_b32 v4, v4
s_waitcnt lgkmcnt(0)
global_store_dwordx3 v1, v[2:4], s[0:1]
global_store_dword v1, v0, s[0:1] offset:16
s_endpgm"""
    if free:
        text = text.replace(HEAD, HEAD + "v_mov_b32_e32 v5, v0\n").replace(FAR, "v_mov_b32_e32 v1, v5\n" + FAR)
    kernel, version = made(text)
    assert (version is not None) is free
    if version is not None:
        assert lines(version, "v_add") == ["v_add_u32 v5, 0x1100, v1"]
        assert proved(kernel, version)


def test_a_real_kernel() -> None:
    """The hand-made version of this loop gained 11 % in the cycle model."""
    kernel = program_of("fused_mlp", "gfx950").kernel("fused_mlp")
    *_, last = LdsBases().propose(Facts(kernel))
    candidate = Candidate.make(kernel, last)
    judgement = Pipeline(kernel).judge(candidate)
    assert judgement.accepted, judgement.verdicts[-1].reason
    assert TimingGate(kernel).predict(candidate.kernel).gain > 0.1


@pytest.mark.long
@pytest.mark.parametrize("target", ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030"])
def test_every_proposal_for_real_kernels_passes_all_gates(target: str) -> None:
    """And the last one for each leaves the same bytes."""
    proposed = 0
    for name, each in all_pairs():
        if each != target:
            continue
        program, manifest = program_of(name, target), launch(name)
        kernel, last = program.kernel(manifest.symbol), None
        for script in LdsBases().propose(Facts(kernel)):
            last = Candidate.make(kernel, script)
            judgement = Pipeline(kernel).judge(last)
            assert judgement.accepted, (name, script.origin, judgement.verdicts[-1].reason)
        if last is not None:
            proposed += 1
            assert EmulationGate(program, kernel, manifest).judge(last).accepted
    assert proposed
