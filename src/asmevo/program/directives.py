"""The parts of a code object that are not code, as directives: kernel descriptors, metadata, symbols, data.

A descriptor is written field by field where that gives the same 64 bytes; which it does is found by
assembling, not here. The register counts of a descriptor are granular (AMDGPU backend user guide,
"compute_pgm_rsrc1"), so the block names the highest count that the granules hold.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from asmevo.program.codeobject import Symbol
from asmevo.program.descriptor import KernelDescriptor
from asmevo.target import Target

_PLAIN_NAME = re.compile(r"[A-Za-z_.$][\w.$@]*\Z")
_WORDS_PER_LINE = 8
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, where it is there
_SAME_NAME_FIELDS = (
    "user_sgpr_private_segment_buffer",
    "user_sgpr_dispatch_ptr",
    "user_sgpr_queue_ptr",
    "user_sgpr_kernarg_segment_ptr",
    "user_sgpr_dispatch_id",
    "user_sgpr_flat_scratch_init",
    "user_sgpr_private_segment_size",
    "uses_dynamic_stack",
    "system_sgpr_workgroup_id_x",
    "system_sgpr_workgroup_id_y",
    "system_sgpr_workgroup_id_z",
    "system_sgpr_workgroup_info",
    "system_vgpr_workitem_id",
    "float_round_mode_32",
    "float_round_mode_16_64",
    "float_denorm_mode_32",
    "float_denorm_mode_16_64",
)
_FLAT_SCRATCH_FIELDS = ("user_sgpr_private_segment_buffer", "user_sgpr_flat_scratch_init")
_EXCEPTIONS = (  # compute_pgm_rsrc2, bits 24 to 30
    "exception_fp_ieee_invalid_op",
    "exception_fp_denorm_src",
    "exception_fp_ieee_div_zero",
    "exception_fp_ieee_overflow",
    "exception_fp_ieee_underflow",
    "exception_fp_ieee_inexact",
    "exception_int_div_zero",
)
_FIRST_EXCEPTION_BIT = 24
_VGPR_GRANULE, _VGPR_GRANULE_LARGE = 4, 8
_SGPR_GRANULE = 8
# VCC, FLAT_SCRATCH and XNACK_MASK: what LLVM may add to the count without being asked (the XNACK mask
# follows the target id). Fewer than a granule, so leaving room for them never changes the granules.
_MOST_RESERVED_SGPRS = 6


def symbol_name(name: str) -> str:
    """A symbol as an operand: quoted where assembly needs it."""
    if _PLAIN_NAME.match(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def symbol_attributes(symbol: Symbol) -> list[str]:
    """Binding, visibility and type of a symbol as directives."""
    name, lines = symbol_name(symbol.name), []
    if symbol.bind in ("GLOBAL", "WEAK"):
        lines.append(f"\t.{'globl' if symbol.bind == 'GLOBAL' else 'weak'} {name}")
    if symbol.visibility in ("HIDDEN", "PROTECTED", "INTERNAL") and symbol.bind != "LOCAL":
        lines.append(f"\t.{symbol.visibility.lower()} {name}")
    kind = {"FUNC": "@function", "OBJECT": "@object", "LOOS": "@function", "AMDGPU_HSA_KERNEL": "@function"}
    if symbol.type in kind:
        lines.append(f"\t.type {name},{kind[symbol.type]}")
    return lines


def data_lines(data: bytes) -> list[str]:
    """Bytes as data directives; long runs of one dword become a `.fill`."""
    lines: list[str] = []
    whole = len(data) & ~3
    words = [int.from_bytes(data[place : place + 4], "little") for place in range(0, whole, 4)]
    place = 0
    while place < len(words):
        run = place
        while run < len(words) and words[run] == words[place]:
            run += 1
        if run - place > _WORDS_PER_LINE:
            lines.append(f"\t.fill {run - place}, 4, {words[place]:#x}")
            place = run
            continue
        line = words[place : place + _WORDS_PER_LINE]
        lines.append("\t.long " + ", ".join(f"{word:#010x}" for word in line))
        place += len(line)
    if whole < len(data):
        lines.append("\t.byte " + ", ".join(f"{byte:#04x}" for byte in data[whole:]))
    return lines


def descriptor_fields(descriptor: KernelDescriptor, target: Target) -> list[tuple[str, int]]:
    """The `.amdhsa_` directives, without that prefix, and their values."""
    family = target.family.value
    newer = family in ("gfx10", "gfx11", "gfx12", "gfx1250")
    accumulators = family in ("gfx90a", "gfx940")
    field = descriptor.field
    fields = [
        ("group_segment_fixed_size", descriptor.group_segment_size),
        ("private_segment_fixed_size", descriptor.private_segment_size),
        ("kernarg_size", descriptor.kernarg_size),
        ("user_sgpr_count", field("user_sgpr_count")),
    ]
    architected = family in ("gfx940", "gfx11", "gfx12", "gfx1250")
    for name in _SAME_NAME_FIELDS:
        if not (architected and name in _FLAT_SCRATCH_FIELDS):
            fields.append((name, field(name)))
    scratch = "enable_private_segment" if architected else "system_sgpr_private_segment_wavefront_offset"
    fields.append((scratch, field("enable_private_segment")))
    if newer:
        wave32 = field("wavefront_size32")
        granule = _VGPR_GRANULE_LARGE if wave32 else _VGPR_GRANULE
        fields += [
            ("wavefront_size32", wave32),
            ("workgroup_processor_mode", field("workgroup_processor_mode")),
            ("memory_ordered", field("memory_ordered")),
            ("forward_progress", field("forward_progress")),
        ]
        if family in ("gfx10", "gfx11"):
            fields.append(("shared_vgpr_count", field("shared_vgpr_count")))
        fields.append(("next_free_sgpr", 0))
    else:
        granule = _VGPR_GRANULE_LARGE if accumulators else _VGPR_GRANULE
        most = (field("granulated_sgpr_count") + 1) * _SGPR_GRANULE
        fields.append(("next_free_sgpr", most - _MOST_RESERVED_SGPRS))
    fields.append(("next_free_vgpr", (field("granulated_vgpr_count") + 1) * granule))
    fields.append(("reserve_vcc", 0))
    if not newer and not architected:
        fields.append(("reserve_flat_scratch", 0))
    if accumulators:
        fields.append(("accum_offset", (field("accum_offset_encoded") + 1) * 4))
        fields.append(("tg_split", field("tg_split")))
    if family not in ("gfx8",):
        fields.append(("fp16_overflow", field("fp16_overflow")))
    if family not in ("gfx12", "gfx1250"):
        fields += [("dx10_clamp", field("dx10_clamp")), ("ieee_mode", field("ieee_mode"))]
    if descriptor.preload:
        fields.append(("user_sgpr_kernarg_preload_length", field("kernarg_preload_length")))
        fields.append(("user_sgpr_kernarg_preload_offset", field("kernarg_preload_offset")))
    if family in ("gfx11", "gfx12", "gfx1250"):
        width = 6 if family == "gfx11" else 8
        fields.append(("inst_pref_size", descriptor.rsrc3 >> 4 & (1 << width) - 1))
    for bit, name in enumerate(_EXCEPTIONS, _FIRST_EXCEPTION_BIT):
        fields.append((name, descriptor.rsrc2 >> bit & 1))
    return fields


def descriptor_block(name: str, descriptor: KernelDescriptor, target: Target) -> list[str]:
    """The descriptor as an `.amdhsa_kernel` block."""
    lines = [f"\t.amdhsa_kernel {symbol_name(name)}"]
    lines += [f"\t\t.amdhsa_{field} {value}" for field, value in descriptor_fields(descriptor, target)]
    return [*lines, "\t.end_amdhsa_kernel"]


def descriptor_data(name: str, descriptor: KernelDescriptor, target: Target) -> list[str]:
    """The descriptor as data, with its fields as comments; the entry stays relative to the kernel."""
    raw = descriptor.raw
    entry = f"\t.quad {symbol_name(name)}-{symbol_name(name + '.kd')}"
    comments = [f"\t; {field} {value}" for field, value in descriptor_fields(descriptor, target)]
    return [*comments, *data_lines(raw[:16]), entry, *data_lines(raw[24:])]


def metadata_yaml(metadata: dict[str, Any]) -> list[str]:
    """The metadata note as `.amdgpu_metadata`."""
    text = yaml.dump(metadata, Dumper=_DUMPER, default_flow_style=False, width=1 << 20, allow_unicode=True)
    return ["\t.amdgpu_metadata", "---", *text.rstrip("\n").split("\n"), "...", "\t.end_amdgpu_metadata"]


def metadata_note(content: bytes) -> list[str]:
    """The metadata note as the bytes of a note section."""
    padded = content + bytes(-len(content) % 4)
    head = ["\t.p2align 2", f"\t.long 7, {len(content)}, 32", '\t.asciz "AMDGPU"', "\t.byte 0"]
    return ['\t.section .note,"a",@note', *head, *data_lines(padded)]
