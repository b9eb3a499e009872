"""What is no program gets one sentence that says what it is; what is one gets read."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from compiled_programs import all_files, names

from asmevo.program import NotAProgramError, ProgramError, UnreadableProgramError, open_program, read_program

_FOREIGN = {
    "CLRX, the old directives": (".amdcl2\n.gpu Fiji\n.kernel add\n    .config\n", "CLRX"),
    "CLRX, a kernel block": ("/* made by clrxdisasm */\n.kernel vectorAdd\n.config\n.dims x\n", "CLRX"),
    "PTX": (".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry add()\n{\nret;\n}\n", "PTX"),
    "LLVM IR": (
        "; ModuleID = 'add'\nsource_filename = \"add\"\ndefine amdgpu_kernel void @add() {\n",
        "LLVM IR",
    ),
    "LLVM IR without a head": ("define amdgpu_kernel void @add(ptr %a) {\n  ret void\n}\n", "LLVM IR"),
    "MIR": ("--- |\n  define void @f() { ret void }\n...\n---\nname: f\nbody: |\n", "MIR"),
    "MLIR": ('module attributes {ttg.target = "hip:gfx942"} {\n  tt.func public @add() {\n', "MLIR"),
    "OpenCL": ("__kernel void add(__global float *a) {\n  a[0] = 1;\n}\n", "OpenCL"),
    "HIP": ("#include <hip/hip_runtime.h>\n__global__ void add(float *a) {}\n", "HIP"),
    "C": ("int main(void) {\n  return 0;\n}\n", "C,"),
    "code object version 2": (".hsa_code_object_version 2,1\n.hsa_code_object_isa 9,0,0\n", "version 2"),
    "x86 assembly": ("\t.intel_syntax noprefix\nmain:\n\tret\n", "CPU"),
    "white space": (" \n\t\n", "no text"),
}


@pytest.mark.parametrize(("text", "words"), _FOREIGN.values(), ids=list(_FOREIGN))
def test_text_of_another_kind_is_named(text: str, words: str) -> None:
    with pytest.raises(NotAProgramError) as caught:
        read_program(text.encode(), "input.s")
    assert words in caught.value.words
    assert str(caught.value).startswith("input.s:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"BC\xc0\xde123", "bitcode"),
        (b"MZ\x90\0", "Windows"),
        (b"!<arch>\n", "archive"),
        (b"\x03\x02\x23\x07abcd", "SPIR-V"),
        (b"CCOB\2\0", "compressed"),
        (b"\x7fELF\1\1\1" + bytes(60), "64-bit"),
        (b"\x89PNG\r\n\x1a\n\0\0", "neither"),
        ("Übung\xff".encode("latin-1"), "neither"),
    ],
)
def test_bytes_of_another_kind_are_named(data: bytes, words: str) -> None:
    with pytest.raises(NotAProgramError) as caught:
        read_program(data, "input")
    assert words in caught.value.words


def test_an_object_for_a_cpu_is_named() -> None:
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
    with pytest.raises(NotAProgramError, match="X86_64, not for an AMD GPU"):
        read_program(header + bytes(64), "input.o")


def test_places_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(NotAProgramError, match="no such file"):
        open_program(tmp_path / "missing.s")
    with pytest.raises(NotAProgramError, match="a directory"):
        open_program(tmp_path)
    with pytest.raises(NotAProgramError, match="cannot be read"):
        open_program("a\0b")
    locked = tmp_path / "locked"
    locked.write_bytes(b"s_endpgm")
    locked.chmod(0)
    if os.geteuid():
        with pytest.raises(NotAProgramError, match="cannot be read"):
            open_program(locked)


def test_random_bytes_are_no_program() -> None:
    rng = random.Random(11)
    for length in (1, 3, 4, 16, 64, 1000):
        with pytest.raises(ProgramError):
            read_program(rng.randbytes(length), "noise")


def _kernels_or_sentence(data: bytes, name: str) -> bool:
    try:
        return bool(read_program(data, name).kernels)
    except ProgramError as error:
        return "\n" not in str(error)


def test_objects_cut_anywhere_and_with_bytes_changed_give_a_sentence_or_a_program() -> None:
    rng = random.Random(5)
    for name in names(".hsaco", 29) + names(".co", 6):
        whole = all_files()[name]
        for _ in range(12):
            data = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.4 else whole)
            for _ in range(rng.choice((0, 1, 4))):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
            assert _kernels_or_sentence(bytes(data), name)


def test_every_cut_of_a_small_object_is_refused() -> None:
    name = min(names(".hsaco"), key=lambda name: len(all_files()[name]))
    whole = all_files()[name]
    assert read_program(whole, name).kernels
    for length in range(0, len(whole) - 1, 7):
        with pytest.raises(ProgramError):
            read_program(whole[:length], name)


def _bundle(*entries: tuple[str, bytes]) -> bytes:
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    size = len(head) + sum(24 + len(name) for name, _ in entries)
    for name, content in entries:
        head += struct.pack("<QQQ", size + len(body), len(content), len(name)) + name.encode()
        body += content
    return head + body


def test_bundles() -> None:
    host, gpu = ("host-x86_64-unknown-linux-gnu-", b""), all_files()["gfx942/saxpy.hsaco"]
    bundle = _bundle(host, ("hipv4-amdgcn-amd-amdhsa--gfx942", gpu))
    program = read_program(bundle, "fat")
    assert [kernel.name for kernel in program.kernels] == ["saxpy"]
    assert program.data == bundle
    assert program.image.data == gpu
    assert "hipv4-amdgcn-amd-amdhsa--gfx942" in program.notes[0]
    both = _bundle(host, ("hipv4-amdgcn-amd-amdhsa--gfx942", gpu), ("hipv4-amdgcn-amd-amdhsa--gfx90a", gpu))
    with pytest.raises(NotAProgramError, match=r"several.*--gfx942, .*--gfx90a"):
        read_program(both, "fat")
    with pytest.raises(NotAProgramError, match=r"no AMDGPU.*host-x86_64"):
        read_program(_bundle(host), "fat")
    for length in range(24, 120):
        with pytest.raises(ProgramError):
            read_program(bundle[:length], "fat")


def test_a_code_object_for_another_gpu_than_asked_is_refused() -> None:
    data = all_files()["gfx942/saxpy.hsaco"]
    assert read_program(data, "k", "gfx942").target.name == "gfx942"
    with pytest.raises(UnreadableProgramError, match="for gfx942, but gfx950"):
        read_program(data, "k", "gfx950")
    with pytest.raises(NotAProgramError, match="gfx9999"):
        read_program(data, "k", "gfx9999")


def test_objects_without_symbols_have_one_kernel_and_its_descriptor() -> None:
    bare = [name for name in names(".co") if b"amdhsa" not in all_files()[name]]
    assert len(bare) == 14
    for name in bare:
        (kernel,) = read_program(all_files()[name], name).kernels
        assert kernel.is_entry
        assert kernel.descriptor is not None
        assert kernel.wave_size == 32
