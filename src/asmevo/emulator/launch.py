"""A launch: what lies in memory and what every wave finds in its registers when it starts.

All of it follows from the kernel descriptor, the metadata and the manifest. AMDGPU backend user guide, "Initial
Kernel Execution State" (user SGPRs in fixed order, then the system SGPRs from `user_sgpr_count` on), "Private
Segment Buffer", "Kernel Dispatch" (the dispatch packet of the HSA standard), and for gfx12 the trap temporaries
that hold the workgroup's place.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from asmevo.emulator.arguments import Apertures, Shape, pack_arguments
from asmevo.emulator.errors import LaunchError
from asmevo.emulator.manifest import Array, LaunchManifest, Triple, Unwritten, make_buffers
from asmevo.emulator.memory import Allocation, GlobalMemory
from asmevo.program.descriptor import PRELOAD_ENTRY_OFFSET, KernelDescriptor
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program
from asmevo.program.registers import NAMED_SPANS, RegisterFile, RegisterSpan

KERNARG, DISPATCH, QUEUE, SCRATCH = "kernel arguments", "dispatch packet", "queue", "scratch"

_PACKET = struct.Struct("<HHHHHHIIIIIQQQQ")  # HSA: hsa_kernel_dispatch_packet_t
_QUEUE_BYTES = 256
_MACHINES = 2  # that may work on one launch, each with its own scratch memory
# Compilers load past the last argument, within the segment's alignment; runtimes allocate cache lines.
_KERNARG_GRANULE = 64  # bytes
_QUEUE_APERTURES = 0x40  # amd_queue_t: group_segment_aperture_base_hi, private_segment_aperture_base_hi
_DYNAMIC_STACK = 4096  # bytes a lane where the kernel's own stack need is not known

# Private segment buffer, word 1 and 3: swizzle enable; element size 4 (gfx8 only; fixed later), index stride of
# one wave, add the lane's number. LLVM, SIInstrInfo::getScratchRsrcWords23.
_SWIZZLE_ENABLE = 1 << 31
_ELEMENT_SIZE_4 = 1 << 19
_INDEX_STRIDE = {64: 3 << 21, 32: 2 << 21}
_ADD_TID = 1 << 23
_RAW_BOUNDS = 3 << 28  # OOB_SELECT, from gfx10 on


class WaveStart(Struct, frozen=True):
    """Registers of a wave that the launch writes: unit -> value, unit -> one value a lane; `exec_mask`."""

    scalars: dict[int, int]
    vectors: dict[int, NDArray[np.uint32]]
    exec_mask: int


class Launch(Struct, frozen=True):
    """One launch, ready to run; `entry` is the address in the image where waves start (bytes)."""

    kernel: Kernel
    manifest: LaunchManifest
    shape: Shape
    memory: GlobalMemory
    apertures: Apertures
    kernarg: bytes
    entry: int
    lds_bytes: int
    scratch_bytes: int
    scratch_slots: int
    mode: int

    def group_size(self, group: Triple) -> Triple:
        """A workgroup's size in work-items; at the grid's end it may be smaller than the others."""
        sizes = [
            min(size, items - place * size)
            for place, size, items in zip(group, self.shape.workgroup, self.shape.grid, strict=True)
        ]
        return (sizes[0], sizes[1], sizes[2])

    def wave_count(self, group: Triple) -> int:
        """Waves of a workgroup."""
        x, y, z = self.group_size(group)
        return -(-x * y * z // self.kernel.wave_size)

    def start(self, group: Triple, wave: int, slot: int) -> WaveStart:
        """What wave `wave` of a workgroup starts with; `slot` is its share of scratch memory."""
        return _Starter(self).start(group, wave, slot)


def prepare(
    program: Program, kernel: Kernel, manifest: LaunchManifest, buffers: Mapping[str, Array] | None = None
) -> Launch:
    """Lays everything out. `buffers` replaces the manifest's data. Raises LaunchError or ManifestError."""
    descriptor = kernel.descriptor
    if descriptor is None:
        raise LaunchError(program.file, f"{kernel.name} is a function, not a kernel")
    if program.image.relocatable:
        raise LaunchError(program.file, "a relocatable object; link it first")
    geometry = manifest.geometry(kernel.target.name)
    assert geometry.workgroup is not None
    assert geometry.grid is not None
    shape = Shape(manifest.groups, geometry.workgroup, geometry.grid, geometry.lds_dynamic or 0)
    content = buffers if buffers is not None else make_buffers(manifest)
    scratch = descriptor.private_segment_size + (_DYNAMIC_STACK if descriptor.field("uses_dynamic_stack") else 0)
    scratch = -(-scratch // 4) * 4
    slots = -(-shape.workgroup[0] * shape.workgroup[1] * shape.workgroup[2] // kernel.wave_size)
    apertures = Apertures()
    memory = GlobalMemory(
        _allocations(
            manifest, content, _kernarg_bytes(kernel, manifest, shape), _MACHINES * scratch * kernel.wave_size * slots
        ),
        [(s.name, s.address, _loaded(s.data, s.size)) for s in program.image.sections if s.allocated and s.size],
    )
    addresses = {name: region.address for name, region in memory.regions.items()}
    kernarg = pack_arguments(kernel, manifest, shape, addresses, apertures)
    lds = descriptor.group_segment_size + shape.lds_dynamic
    _fill(memory, KERNARG, kernarg)
    _fill(memory, DISPATCH, _packet(shape, scratch, lds, addresses[KERNARG]))
    _fill(memory, QUEUE, struct.pack("<II", apertures.shared, apertures.private), _QUEUE_APERTURES)
    preload = PRELOAD_ENTRY_OFFSET if descriptor.field("kernarg_preload_length") else 0
    return Launch(
        kernel, manifest, shape, memory, apertures, kernarg, kernel.address + preload, lds, scratch, slots,
        initial_mode(descriptor, kernel.target.family.value),
    )  # fmt: skip


def _kernarg_bytes(kernel: Kernel, manifest: LaunchManifest, shape: Shape) -> int:
    nowhere = {argument.name: 0 for argument in manifest.buffers}
    return len(pack_arguments(kernel, manifest, shape, nowhere, Apertures()))


def _allocations(
    manifest: LaunchManifest, content: Mapping[str, Array], kernarg: int, scratch: int
) -> list[Allocation]:
    wishes = []
    for argument in manifest.buffers:
        data = np.ascontiguousarray(content[argument.name])
        unwritten = isinstance(argument.init, Unwritten)
        wishes.append(
            Allocation(argument.name, data.nbytes, None if unwritten else data.tobytes(), align=argument.align)
        )
    kernarg = -(-kernarg // _KERNARG_GRANULE) * _KERNARG_GRANULE
    wishes.append(Allocation(KERNARG, kernarg, bytes(kernarg), writable=False))
    wishes.append(Allocation(DISPATCH, _PACKET.size, bytes(_PACKET.size), writable=False))
    wishes.append(Allocation(QUEUE, _QUEUE_BYTES, bytes(_QUEUE_BYTES), writable=False))
    wishes.append(Allocation(SCRATCH, scratch))
    return wishes


def _loaded(data: bytes, size: int) -> bytes:
    return data if len(data) == size else data.ljust(size, b"\0")


def _fill(memory: GlobalMemory, name: str, content: bytes, offset: int = 0) -> None:
    view = memory.arena.view(memory.regions[name])
    view[offset : offset + len(content)] = np.frombuffer(content, np.uint8)


def _packet(shape: Shape, scratch: int, lds: int, kernarg: int) -> bytes:
    kernel_dispatch, setup = 2, shape.dimensions  # header: packet type; setup: dimensions
    return _PACKET.pack(
        kernel_dispatch, setup, *shape.workgroup, 0, *shape.grid, scratch, lds, 0, kernarg, 0, 0
    )  # fmt: skip


def initial_mode(descriptor: KernelDescriptor, family: str) -> int:
    """The MODE register: rounding [3:0], denormals [7:4], DX10_CLAMP 8, IEEE 9, FP16_OVFL 23.

    gfx12 has neither of the two clamp and IEEE bits and acts as with DX10_CLAMP on and IEEE off.
    """
    mode = descriptor.field("float_round_mode_32") | descriptor.field("float_round_mode_16_64") << 2
    mode |= descriptor.field("float_denorm_mode_32") << 4 | descriptor.field("float_denorm_mode_16_64") << 6
    if family.startswith("gfx12"):
        mode |= 1 << 8
    else:
        mode |= descriptor.field("dx10_clamp") << 8 | descriptor.field("ieee_mode") << 9
    if family != "gfx8":
        mode |= descriptor.field("fp16_overflow") << 23
    return mode


class _Starter:
    """Builds the initial registers of one wave."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.kernel = launch.kernel
        assert launch.kernel.descriptor is not None
        self.descriptor: KernelDescriptor = launch.kernel.descriptor
        self.abi = launch.kernel.target.abi
        self.scalars: dict[int, int] = {}

    def start(self, group: Triple, wave: int, slot: int) -> WaveStart:
        self._user_sgprs()
        self._system_sgprs(group, wave, slot)
        ids, exec_mask = self._work_items(group, wave)
        self._named("mode", self.launch.mode)
        self._named("exec_lo", exec_mask & 0xFFFFFFFF)
        self._named("exec_hi", exec_mask >> 32)
        if self.abi.architected_flat_scratch.value:
            self._pair(NAMED_SPANS["flat_scratch"], self.launch.memory.address(SCRATCH))
        return WaveStart(self.scalars, ids, exec_mask)

    def _named(self, name: str, value: int) -> None:
        self.scalars[NAMED_SPANS[name].base_unit] = value

    def _set(self, first: int, words: list[int]) -> None:
        for place, word in enumerate(words):
            self.scalars[RegisterSpan(RegisterFile.SGPR, first + place).base_unit] = word & 0xFFFFFFFF

    def _pair(self, span: RegisterSpan, value: int) -> None:
        self.scalars[span.base_unit] = value & 0xFFFFFFFF
        self.scalars[span.base_unit + 1] = value >> 32

    def _user_sgprs(self) -> None:
        memory = self.launch.memory
        for name, first, count in self.descriptor.user_sgprs():
            match name.removeprefix("user_sgpr_"):
                case "private_segment_buffer":
                    words = self._scratch_descriptor(memory.address(SCRATCH))
                case "dispatch_ptr":
                    words = _words(memory.address(DISPATCH))
                case "queue_ptr":
                    words = _words(memory.address(QUEUE))
                case "kernarg_segment_ptr":
                    words = _words(memory.address(KERNARG))
                case "flat_scratch_init":
                    words = _words(memory.address(SCRATCH))
                case "private_segment_size":
                    words = [self.launch.scratch_bytes]
                case "kernarg_preload":
                    words = self._preloaded(count)
                case _:
                    words = [0] * count
            self._set(first, words)

    def _scratch_descriptor(self, base: int) -> list[int]:
        word3 = _INDEX_STRIDE[self.kernel.wave_size] | _ADD_TID
        family = self.kernel.target.family.value
        if family == "gfx8":
            word3 |= _ELEMENT_SIZE_4
        elif family.startswith("gfx1"):
            word3 |= _RAW_BOUNDS
        return [base & 0xFFFFFFFF, base >> 32 | _SWIZZLE_ENABLE, 0xFFFFFFFF, word3]

    def _preloaded(self, count: int) -> list[int]:
        start = 4 * self.descriptor.field("kernarg_preload_offset")
        raw = self.launch.kernarg[start : start + 4 * count].ljust(4 * count, b"\0")
        return list(struct.unpack(f"<{count}I", raw))

    def _system_sgprs(self, group: Triple, wave: int, slot: int) -> None:
        words = []
        if self.abi.workgroup_ids.value == "ttmp":
            self.scalars[RegisterSpan(RegisterFile.TTMP, 9).base_unit] = group[0]
            self.scalars[RegisterSpan(RegisterFile.TTMP, 7).base_unit] = group[1] | group[2] << 16
            self.scalars[RegisterSpan(RegisterFile.TTMP, 8).base_unit] = wave << 25
        else:
            for axis, letter in enumerate("xyz"):
                if self.descriptor.field(f"system_sgpr_workgroup_id_{letter}"):
                    words.append(group[axis])
            if self.descriptor.field("system_sgpr_workgroup_info"):
                words.append(self.launch.wave_count(group) | (wave == 0) << 31)
        if self.descriptor.field("enable_private_segment") and not self.abi.architected_flat_scratch.value:
            words.append(slot * self.launch.scratch_bytes * self.kernel.wave_size)
        self._set(self.descriptor.field("user_sgpr_count"), words)

    def _work_items(self, group: Triple, wave: int) -> tuple[dict[int, NDArray[np.uint32]], int]:
        size_x, size_y, size_z = self.launch.group_size(group)
        lanes = self.kernel.wave_size
        flat = np.arange(wave * lanes, (wave + 1) * lanes, dtype=np.uint32)
        present = flat < size_x * size_y * size_z
        exec_mask = sum(1 << lane for lane in range(lanes) if present[lane])
        ids = [flat % size_x, flat // size_x % size_y, flat // (size_x * size_y)]
        wanted = self.descriptor.field("system_vgpr_workitem_id") + 1
        ids = [np.where(present, each, 0).astype(np.uint32) for each in ids[: min(wanted, 3)]]
        if self.abi.packed_workitem_ids.value:
            packed = np.zeros(lanes, np.uint32)
            for axis, each in enumerate(ids):
                packed |= each << np.uint32(10 * axis)
            return {0: packed}, exec_mask
        return dict(enumerate(ids)), exec_mask


def _words(value: int) -> list[int]:
    return [value & 0xFFFFFFFF, value >> 32]
