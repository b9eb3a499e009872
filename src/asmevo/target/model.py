"""What is known about one GPU target, as frozen models whose every leaf is a Fact.

Properties and methods give plain values for the hot paths; the facts behind them stay reachable by the same
names.
"""

from collections.abc import Mapping
from typing import Any, Literal

from asmevo.target import bits
from asmevo.target.facts import Fact, Frozen
from asmevo.target.matrix import MatrixRow, MatrixTable, load_matrix

Number = int | float
ByWave = dict[int, int]
Parts = tuple[tuple[int, int], ...]


class ElfFacts(Frozen, frozen=True):
    machine: Fact[int]
    xnack: Fact[bool]
    sramecc: Fact[bool]


class WaveFacts(Frozen, frozen=True):
    supported: Fact[tuple[int, ...]]
    default: Fact[int]


class VgprFacts(Frozen, frozen=True):
    """`clears_other_half`: names (shell patterns) of the VALU instructions with a result of 16 bits that clear
    the other half of its register; all others leave it as it was.
    """

    total: Fact[ByWave]
    granule: Fact[ByWave]
    encoding_granule: Fact[ByWave]
    max_addressable: Fact[int]
    max_total: Fact[int]
    agprs: Fact[Literal["none", "separate", "unified"]]
    accum_offset_granule: Fact[int]
    clears_other_half: Fact[tuple[str, ...]]


class SgprFacts(Frozen, frozen=True):
    """`waves`: for each wave count the most SGPRs, the extra ones included; empty where SGPRs never limit."""

    total: Fact[int]
    granule: Fact[int]
    encoding_granule: Fact[int]
    max_usable: Fact[int]
    max_user: Fact[int]
    fixed_allocation: Fact[int]
    trap_handler_reserve: Fact[int]
    extra_always: Fact[int]
    extra_vcc: Fact[int]
    extra_xnack: Fact[int]
    extra_flat_scratch: Fact[int]
    limits_occupancy: Fact[bool]
    waves: Fact[dict[int, int]]


class LdsFacts(Frozen, frozen=True):
    bytes_per_cu: Fact[int]
    bytes_per_wgp: Fact[int]
    granule: Fact[int]
    encoding_granule: Fact[int]
    max_per_workgroup: Fact[int]
    banks: Fact[int]


class LimitFacts(Frozen, frozen=True):
    max_waves_per_simd: Fact[int]
    simds_per_cu: Fact[int]
    cus_per_workgroup_processor: Fact[int]
    modes: Fact[tuple[Literal["cu", "wgp"], ...]]
    default_mode: Fact[Literal["cu", "wgp"]]
    barriers_per_cu: Fact[int]
    barriers_per_wgp: Fact[int]
    max_workgroup_size: Fact[int]
    scratch_granule: Fact[int]
    clauses_mix_loads_and_stores: Fact[bool]


class AbiFacts(Frozen, frozen=True):
    """`split_workgroups`: whether a descriptor may ask for threadgroup split mode."""

    architected_flat_scratch: Fact[bool]
    packed_workitem_ids: Fact[bool]
    kernarg_preload: Fact[bool]
    workgroup_ids: Fact[Literal["sgpr", "ttmp"]]
    named_barriers: Fact[bool]
    split_workgroups: Fact[bool]


class WaitCounter(Frozen, frozen=True):
    """`events` maps an event to its order group.

    Two pending events complete in issue order only if they are in the same group and neither is
    `out_of_order`; otherwise only a wait for zero tells that one of them is done.
    """

    maximum: Fact[int]
    events: Fact[dict[str, str]]
    out_of_order: Fact[tuple[str, ...]]

    def in_order(self, first: str, second: str) -> bool:
        loose = self.out_of_order.value
        groups = self.events.value
        return first not in loose and second not in loose and groups[first] == groups[second]


class DepctrFacts(Frozen, frozen=True):
    instruction: Fact[str]
    fields: Fact[dict[str, tuple[int, int]]]


class LegacyWaitFacts(Frozen, frozen=True):
    """An old wait instruction that the target still takes but that waits for everything.

    `fields`: what its immediate meant where it was at home, by the old counter; `counters`: the counters that now
    count what an old one did.
    """

    fields: Fact[dict[str, Parts]]
    counters: Fact[dict[str, tuple[str, ...]]]


class WaitFacts(Frozen, frozen=True):
    """`loads_write_in_order`: whether vector memory loads write registers in the order that they are counted
    in. `explicit`: the counters that only programs wait for, where compilers insert nothing. `legacy` is s_waitcnt on
    targets where every counter has a wait instruction of its own.
    """

    loads_write_in_order: Fact[bool]
    explicit: Fact[tuple[str, ...]]
    counters: dict[str, WaitCounter]
    instructions: dict[str, Fact[dict[str, Parts]]]
    depctr: DepctrFacts | None = None
    legacy: LegacyWaitFacts | None = None


class LatencyClass(Frozen, frozen=True):
    """`result`: cycles until a dependent may use it; `occupancy`: cycles the unit is held."""

    result: Fact[Number]
    occupancy: Fact[Number]
    scenarios: Fact[dict[str, Number]] | None = None


class VopdFacts(Frozen, frozen=True):
    """`y_only`: opcodes that only the second half takes. `loses_interlock_on_parity`: whether a source may be read too
    early where the two halves' sources in one place differ, but are both even or both odd.
    """

    wave_sizes: Fact[tuple[int, ...]]
    dst_bank_mask: Fact[int]
    src0_bank_mask: Fact[int]
    src1_bank_mask: Fact[int]
    src2_bank_mask: Fact[int]
    max_literals: Fact[int]
    max_scalar_operands: Fact[int]
    y_reads_x_result: Fact[bool]
    mov_pair_exempt: Fact[bool]
    vopd3: Fact[bool]
    y_only: Fact[tuple[str, ...]]
    loses_interlock_on_parity: Fact[bool]


class DelayAluFacts(Frozen, frozen=True):
    max_valu_dep: Fact[int]
    max_trans32_dep: Fact[int]
    max_salu_cycles: Fact[int]
    max_skip: Fact[int]
    fields: Fact[dict[str, tuple[int, int]]]
    ids: Fact[dict[str, int]]
    skips: Fact[dict[str, int]]


class MatrixFacts(Frozen, frozen=True):
    table: Fact[str]


class TargetSections(Frozen, frozen=True):
    """The groups of facts, as the data files lay them out."""

    name: str
    products: Fact[str]
    family: Fact[str]
    elf: ElfFacts
    wave: WaveFacts
    vgpr: VgprFacts
    sgpr: SgprFacts
    lds: LdsFacts
    limits: LimitFacts
    abi: AbiFacts
    wait: WaitFacts
    latency: dict[str, LatencyClass]
    timing: dict[str, Fact[Number]]
    vopd: VopdFacts | None = None
    delay_alu: DelayAluFacts | None = None
    matrix: MatrixFacts | None = None


class Target(TargetSections, frozen=True):
    """One GPU."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Target) and other.name == self.name

    @property
    def wave_sizes(self) -> tuple[int, ...]:
        return self.wave.supported.value

    @property
    def default_wave_size(self) -> int:
        return self.wave.default.value

    @property
    def max_waves(self) -> int:
        return self.limits.max_waves_per_simd.value

    def _by_wave(self, fact: Fact[ByWave], wave_size: int | None) -> int:
        size = wave_size if wave_size is not None else self.default_wave_size
        if size not in fact.value:
            sizes = ", ".join(map(str, self.wave_sizes))
            raise ValueError(f"{self.name} has no wave size {size}; it has {sizes}")
        return fact.value[size]

    def vgpr_total(self, wave_size: int | None = None) -> int:
        return self._by_wave(self.vgpr.total, wave_size)

    def vgpr_granule(self, wave_size: int | None = None) -> int:
        return self._by_wave(self.vgpr.granule, wave_size)

    def vgpr_encoding_granule(self, wave_size: int | None = None) -> int:
        return self._by_wave(self.vgpr.encoding_granule, wave_size)

    def waves_for_vgprs(self, count: int, wave_size: int | None = None) -> int:
        """Waves a SIMD holds when each uses `count` VGPRs, in a unified file AGPRs included; 0 = too many."""
        if count > self.vgpr.max_total.value:
            return 0
        granule = self.vgpr_granule(wave_size)
        allocated = max(granule, -(-count // granule) * granule)
        return min(self.max_waves, self.vgpr_total(wave_size) // allocated)

    def waves_for_sgprs(self, count: int) -> int:
        """Waves a SIMD holds when each uses `count` SGPRs, VCC, XNACK and flat scratch included."""
        if not self.sgpr.limits_occupancy.value:
            return self.max_waves
        return max((waves for waves, most in self.sgpr.waves.value.items() if count <= most), default=0)

    @property
    def matrix_table(self) -> MatrixTable | None:
        return load_matrix(self.matrix.table.value) if self.matrix is not None else None

    def matrix_row(self, mnemonic: str, *, eight_bit: bool = True) -> MatrixRow | None:
        table = self.matrix_table
        return table.row(mnemonic, eight_bit=eight_bit) if table is not None else None

    def mfma_passes(self, mnemonic: str, *, eight_bit: bool = True) -> int | None:
        """Passes of a matrix operation, None if the target does not have it."""
        row = self.matrix_row(mnemonic, eight_bit=eight_bit)
        return row.passes if row is not None else None

    def matrix_cycles(self, mnemonic: str, *, eight_bit: bool = True) -> int | None:
        """Cycles a matrix operation holds its unit."""
        table = self.matrix_table
        passes = self.mfma_passes(mnemonic, eight_bit=eight_bit)
        return None if table is None or passes is None else passes * table.cycles_per_pass

    def counters_for(self, event: str) -> tuple[str, ...]:
        """The wait counters that an event increments; `flat` is in two."""
        return tuple(name for name, counter in self.wait.counters.items() if event in counter.events.value)

    def wait_instruction(self, counters: Mapping[str, int]) -> str:
        """The wait instruction that names all these counters and the fewest others."""
        able = [
            (len(fact.value), name) for name, fact in self.wait.instructions.items() if set(counters) <= set(fact.value)
        ]
        if not able:
            names = ", ".join(sorted(counters))
            raise ValueError(f"{self.name} has no instruction that waits for {names} together")
        best = min(size for size, _ in able)
        return next(name for size, name in able if size == best)

    def encode_wait(self, counters: Mapping[str, int], mnemonic: str | None = None) -> int:
        """The immediate of a wait instruction; a counter not named is not waited for."""
        fields = self._wait_fields(mnemonic or self._default_wait() or self.wait_instruction(counters))
        if strangers := set(counters) - set(fields):
            raise ValueError(f"{self.name}: this wait instruction has no {', '.join(sorted(strangers))}")
        word = 0
        for name, parts in fields.items():
            most = self.wait.counters[name].maximum.value
            value = counters.get(name, most)
            if not 0 <= value <= most:
                raise ValueError(f"{self.name}: {name} goes from 0 to {most}, not {value}")
            word |= bits.pack(value, parts)
        return word

    def decode_wait(self, imm: int, mnemonic: str | None = None) -> dict[str, int | None]:
        """What a wait instruction waits for; None = not waited for (the counter's maximum)."""
        name = mnemonic or self._default_wait()
        if name is None:
            raise ValueError(f"{self.name} has one wait instruction a counter; say which")
        counters = self.wait.counters
        values = {counter: bits.unpack(imm, parts) for counter, parts in self._wait_fields(name).items()}
        return {c: value if value < counters[c].maximum.value else None for c, value in values.items()}

    def decode_legacy_wait(self, imm: int) -> dict[str, int]:
        """What an old s_waitcnt means in this target's counters; those it leaves alone are missing."""
        legacy = self.wait.legacy
        if legacy is None:
            raise ValueError(f"{self.name} has no legacy wait instruction")
        found = {}
        for old, parts in legacy.fields.value.items():
            value = bits.unpack(imm, parts)
            if value < bits.mask(sum(width for _, width in parts)):
                found.update(dict.fromkeys(self.counters_of_legacy(old), value))
        return found

    def counters_of_legacy(self, old: str) -> tuple[str, ...]:
        """The counters of this target that count what an old counter (vmcnt, lgkmcnt, expcnt) did."""
        waited_for = {counter for fields in self.wait.instructions.values() for counter in fields.value}
        counters = self.wait.legacy.counters.value.get(old, ()) if self.wait.legacy is not None else ()
        return tuple(counter for counter in counters if counter in waited_for)

    def _default_wait(self) -> str | None:
        """The instruction that waits for several counters at once on targets before gfx12."""
        return "s_waitcnt" if "s_waitcnt" in self.wait.instructions else None

    def _wait_fields(self, mnemonic: str) -> dict[str, Parts]:
        if mnemonic not in self.wait.instructions:
            raise ValueError(f"{self.name} has no wait instruction {mnemonic}")
        return self.wait.instructions[mnemonic].value

    def _depctr_fields(self) -> dict[str, tuple[int, int]]:
        if self.wait.depctr is None:
            raise ValueError(f"{self.name} has no s_waitcnt_depctr or s_wait_alu")
        return self.wait.depctr.fields.value

    def encode_depctr(self, fields: Mapping[str, int]) -> int:
        """The immediate of s_waitcnt_depctr / s_wait_alu; a field not named is not waited for."""
        known = self._depctr_fields()
        if strangers := set(fields) - set(known):
            raise ValueError(f"{self.name}: no depctr field {', '.join(sorted(strangers))}")
        word = 0
        for name, (bit, width) in known.items():
            value = fields.get(name, bits.mask(width))
            if not 0 <= value <= bits.mask(width):
                raise ValueError(f"{self.name}: {name} goes from 0 to {bits.mask(width)}, not {value}")
            word |= bits.pack(value, ((bit, width),))
        return word

    def decode_depctr(self, imm: int) -> dict[str, int | None]:
        """What an s_waitcnt_depctr / s_wait_alu waits for; None = not waited for (the field's maximum)."""
        fields = self._depctr_fields()
        values = {name: bits.unpack(imm, (part,)) for name, part in fields.items()}
        return {n: value if value < bits.mask(fields[n][1]) else None for n, value in values.items()}
