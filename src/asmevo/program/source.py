"""Assembly text as it was handed in, and the same text in the dialect that LLVM here takes.

The two have the same lines, so a place in one is a place in the other and LLVM's complaints can be told
with the user's own line numbers. What differs between the dialects and is respelled: how the target is
named, and `instprefsize()`, which only newer compilers know. Text in the dialects of other tools is
refused by the name of the tool.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from asmevo.program.errors import NotAProgramError, UnreadableProgramError
from asmevo.program.statements import SourceLine, scan_lines
from asmevo.target import Target, TargetId, UnknownTargetError, load_target, parse_target_id
from asmevo.toolchain import TRIPLE, Processor

_TARGET_LINE = re.compile(r'^([ \t]*\.amdgcn_target[ \t]+")([^"\n]*)(")', re.M)
_TARGET_IN_METADATA = re.compile(r"^[ \t]*amdhsa\.target:[ \t]*(\S+)[ \t]*$", re.M)
_VERSION_LINE = re.compile(r"^[ \t]*\.amdhsa_code_object_version[ \t]+(\d+)", re.M)
_WAVE_DIRECTIVE = re.compile(r"^[ \t]*\.amdhsa_wavefront_size32[ \t]+([01])\b", re.M)
_WAVE_IN_METADATA = re.compile(r"^[ \t-]*\.wavefront_size:[ \t]+(32|64)\b", re.M)
_HALF_REGISTER = re.compile(r"\bv(\d+|\[[^\]\n]*\])\.[lh]\b")
_OUR_WAVE = re.compile(r"^; asmevo: wavefront size (32|64)$", re.M)
_OUR_HALVES = re.compile(r"^; asmevo: 16-bit halves$", re.M)
_DEPCTR = re.compile(r"\b(s_wait_alu|s_waitcnt_depctr)([ \t]+)((?:depctr_\w+\([ \t]*\w+[ \t]*\)[ \t,&|]*)+)", re.I)
# Hardware registers that this LLVM does not know by name; number as llvm-mc 22.1.8 encodes it.
_HARDWARE_REGISTERS = {"HW_REG_WAVE_SCHED_MODE": 26}
_HARDWARE_REGISTER = re.compile(rf"\bhwreg\(\s*({'|'.join(_HARDWARE_REGISTERS)})\b")
_DEPCTR_FIELD = re.compile(r"depctr_(\w+)\([ \t]*(\w+)[ \t]*\)", re.I)
_HALVES_FAMILIES = ("gfx11", "gfx12", "gfx1250")  # where LLVM has the feature `real-true16`

# (what to look for at the start of a line, what it means); the first that is found is reported.
_FOREIGN_TEXT = tuple(
    (re.compile(pattern, re.M), words)
    for pattern, words in (
        (
            r"^[ \t]*\.(amdcl2?|rocm|gallium|gpu[ \t]+\w+|kernel[ \t]+\w+|config|driver_version)[ \t]*$",
            "assembly for CLRX, not in LLVM's syntax; assemble it with clrxasm and pass the code object",
        ),
        (r"^[ \t]*\.target[ \t]+sm_\d", "NVIDIA PTX, not AMDGPU assembly"),
        (
            r"^(; ModuleID|source_filename[ \t]*=|target (datalayout|triple)[ \t]*=|define[ \t].*@.*$)",
            "LLVM IR, not AMDGPU assembly; compile it with llc -march=amdgcn -filetype=obj",
        ),
        (
            r"^(--- \||body:[ \t]*\||tracksRegLiveness:)",
            "LLVM machine IR (MIR), not AMDGPU assembly; compile it with llc",
        ),
        (r"^[ \t]*(module( attributes)? [{]|#ttg\.|tt\.func |llvm\.func )", "MLIR, not AMDGPU assembly"),
        (
            r"^[ \t]*(#(include[ \t]*[<\"]|define[ \t]+\w|(pragma|ifdef|ifndef)\b)"
            r"|__kernel\b|kernel void\b|__global__\b"
            r"|extern \"C\"|(static |inline )*(void|int|float|double|char) \**\w+[ \t]*\(.*$|typedef\b)",
            "C, HIP or OpenCL source, not AMDGPU assembly; compile it first",
        ),
        (
            r"^[ \t]*\.(hsa_code_object_(version|isa)|amd_kernel_code_t|amdgpu_hsa_kernel|hsa_namespace)\b",
            "assembly for code object version 2 (`.hsa_code_object_version`), which LLVM no longer takes; "
            "compile it anew with -mcode-object-version=5",
        ),
        (
            r"^[ \t]*(\.intel_syntax|\.cpu\b|\.arch armv|push[ql]?[ \t]+%\w+|mov[ql]?[ \t]+%\w+,)",
            "assembly for a CPU, not for an AMD GPU",
        ),
    )
)


class SourceText(Struct, frozen=True):
    """`text` as read; `assembled` is the same line for line in the dialect that LLVM here takes.

    `processor` is what LLVM is told; `gpu` is the target's name with pinned features, `version` the code
    object version that the text asks for, if it does.
    """

    text: str
    assembled: str
    processor: Processor
    gpu: str
    wave_size: int
    version: int | None = None

    @property
    def lines(self) -> list[str]:
        """The source's lines, without line ends."""
        return self.text.split("\n")

    @property
    def scanned(self) -> list[SourceLine]:
        """What stands in each line."""
        return scan_lines(self.assembled)


def refuse_foreign_text(text: str, file: str) -> None:
    """Raises NotAProgramError for text that is plainly something else than LLVM's AMDGPU assembly."""
    if _TARGET_LINE.search(text):
        return
    for pattern, words in _FOREIGN_TEXT:
        found = pattern.search(text)
        if found is not None:
            raise NotAProgramError(file, words, text.count("\n", 0, found.start()) + 1)


def source_variants(
    text: str, file: str, gpu: str | None, wave_size: int | None = None
) -> tuple[list[SourceText], tuple[str, ...]]:
    """The ways to read the text, likeliest first, and notes about what was respelled.

    There is more than one way only where the text leaves open which wave size it is for, or whether it
    means 16-bit halves of registers. Raises NotAProgramError or UnreadableProgramError.
    """
    target_id, line = _target_id(text, file, gpu)
    target = load_target(target_id.name)
    assembled = respell_depctr(_respell_hardware_registers(_respell_target(text, target_id)), target)
    found = _VERSION_LINE.search(text)
    version = int(found[1]) if found else None
    base = SourceText(text, assembled, Processor(target.name), str(target_id), target.default_wave_size, version)
    variants = [
        replace(base, wave_size=size, processor=_processor(target, target_id, size, halves))
        for size in _wave_sizes(text, file, target, wave_size)
        for halves in _halves(text, target)
    ]
    note = target_id.note
    return variants, ((f"{file}:{line}: {note}" if line else f"{file}: {note}",) if note else ())


def _target_id(text: str, file: str, gpu: str | None) -> tuple[TargetId, int | None]:
    asked = _parsed(gpu, file, None) if gpu is not None else None
    found = _TARGET_LINE.search(text)
    name = found[2] if found else None
    if found is None:
        found = _TARGET_IN_METADATA.search(text)
        name = found[1].strip("'\"") if found else None
    if found is None or name is None:
        if asked is None:
            words = "no `.amdgcn_target` line says which GPU it is for; name it with --gpu, e.g. --gpu gfx942"
            raise UnreadableProgramError(file, words)
        return asked, None
    line = text.count("\n", 0, found.start()) + 1
    named = _parsed(name, file, line)
    if asked is not None and asked.name != named.name:
        raise UnreadableProgramError(file, f"the text is for {named.name}, but {asked.name} was asked for", line)
    return (asked if asked is not None and asked.features and not named.features else named), line


def _parsed(name: str, file: str, line: int | None) -> TargetId:
    try:
        return parse_target_id(name)
    except UnknownTargetError as error:
        raise NotAProgramError(file, str(error), line) from error


def _respell_target(text: str, target_id: TargetId) -> str:
    spelled = f"{TRIPLE}--{target_id}"
    return _TARGET_LINE.sub(lambda found: f"{found[1]}{spelled}{found[3]}", text)


def _respell_hardware_registers(text: str) -> str:
    return _HARDWARE_REGISTER.sub(lambda found: f"hwreg({_HARDWARE_REGISTERS[found[1]]}", text)


def respell_depctr(text: str, target: Target) -> str:
    """Named fields of `s_waitcnt_depctr` as a number.

    LLVM computes what the fields that are not named hold once in a process, for whichever target comes
    first, and keeps that for all others; so within one process only a number is safe.
    """

    def as_number(found: re.Match[str]) -> str:
        try:
            fields = {name.lower(): int(value, 0) for name, value in _DEPCTR_FIELD.findall(found[3])}
            return f"{found[1]}{found[2]}{target.encode_depctr(fields):#x}"
        except ValueError:
            return found[0]  # LLVM says what is wrong with it

    return _DEPCTR.sub(as_number, text)


def _wave_sizes(text: str, file: str, target: Target, asked: int | None) -> list[int]:
    found = _possible_wave_sizes(text, file, target)
    if asked is None:
        return found
    if asked not in found:
        sizes = " or ".join(map(str, found))
        raise UnreadableProgramError(file, f"the code is for waves of {sizes} lanes, but {asked} was asked for")
    return [asked]


def _possible_wave_sizes(text: str, file: str, target: Target) -> list[int]:
    if len(target.wave_sizes) == 1:
        return [target.default_wave_size]
    ours = _OUR_WAVE.search(text)
    if ours is not None:
        return [int(ours[1])]
    said = {32 if value == "1" else 64 for value in _WAVE_DIRECTIVE.findall(text)}
    said = said or {int(value) for value in _WAVE_IN_METADATA.findall(text)}
    if len(said) > 1:
        raise UnreadableProgramError(
            file,
            "kernels of 32 and of 64 lanes stand in one text, which LLVM cannot assemble; split the file",
        )
    if said:
        return list(said)
    return [
        target.default_wave_size,
        *(size for size in target.wave_sizes if size != target.default_wave_size),
    ]


def _halves(text: str, target: Target) -> list[bool]:
    if target.family.value not in _HALVES_FAMILIES:
        return [False]
    return [True] if _HALF_REGISTER.search(text) or _OUR_HALVES.search(text) else [False, True]


def _processor(target: Target, target_id: TargetId, wave_size: int, halves: bool) -> Processor:
    features = [f"{feature[-1]}{feature[:-1]}" for feature in target_id.features]
    if halves:
        features.append("+real-true16")
    if len(target.wave_sizes) > 1 and wave_size != target.default_wave_size:
        features += ["-wavefrontsize32", "+wavefrontsize64"]
    return Processor(target.name, ",".join(features))
