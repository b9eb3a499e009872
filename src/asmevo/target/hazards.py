"""The hazards that software must avoid, as data: `data/hazards.yaml`.

A hazard is a pair of instructions, a producer and a consumer, that lie too close together. Two kinds of rows
say what "too close" means:

* a `wait_states` row names a number. Every instruction between the two counts as one wait state, `s_nop N`
  as N + 1, whatever they do.
* a `sequence` row names what ends the danger (`until`): mitigating instructions, or a number of instructions
  of a class. It may further say that something has to happen before the producer (`primed_by`) or between
  producer and consumer (`arm`).

Who producer and consumer are is said with a Selector: words about the instruction (the opcode's flags, plus
the words that `asmevo.analysis.hazards` derives), its mnemonic, its registers. Which registers tie the two
together is said with `via`. The vocabulary is closed: a word that the loader does not know is an error.
"""

from functools import cache
from typing import Literal

from msgspec import convert, field

from asmevo.target import data_files
from asmevo.target.facts import Frozen, Known, Words

Word = Literal[
    # flags of the opcode table
    "valu", "salu", "smem", "vmem", "ds", "exp", "flat", "global", "scratch", "gds", "trans", "dot", "wmma",
    "swmmac", "mai", "dpp", "ldsdir", "lds_dma", "fp_atomic", "branch", "may_store",
    # derived: matrix operations of MFMA kind, by the target's matrix table
    "mfma", "xdl", "sgemm", "dgemm",
    # derived: from the printed form
    "sopp", "soffset_register", "sets_upper_half", "wide_nsa", "leaves_function", "hands_back_vgprs",
    "writes_source",
    "whole_resource",
]  # fmt: skip
"""What can be said of an instruction."""

Role = Literal[
    "reads", "writes", "touches", "operand_reads", "destination", "src_ab", "src_c", "lane_select",
    "dpp_source", "store_data", "lane_mask", "hwreg",
]  # fmt: skip
"""A set of an instruction's registers. `reads`, `writes` and `touches` (both) hold implicit ones, too;
`operand_reads` is what printed operands read, plus VCC; `destination` what printed operands write. `src_c` is
the accumulator of a matrix or DOT operation, `src_ab` all its other sources (index and scales included).
`lane_mask` is an operand of one bit a lane; `hwreg` the hardware register of s_getreg and s_setreg, which is a name
and no register; all others lie within `touches`."""

RegisterKind = Literal["any", "vgpr", "agpr", "vector", "sgpr", "vcc", "scalar", "exec", "m0"]
"""`sgpr` leaves out VCC; `scalar` has both, and the trap registers."""

Severity = Literal["error", "warning"]


class Selector(Frozen, frozen=True, eq=False):
    """Which instructions are meant. All parts that are given must hold.

    `all_of`, `any_of`, `none_of`: words. `mnemonic`, `not_mnemonic`: shell patterns of which one / none fits
    the mnemonic without its encoding suffix (`_e32`, `_e64`, `_dpp`, `_sdwa`). `writes`: writes a register of
    one of these kinds, implicit ones included; `reads` likewise. `depctr` and `counters`: a wait instruction
    that waits until each of these fields or counters is at most this. Two selectors are equal only if they are one.
    """

    all_of: tuple[Word, ...] = ()
    any_of: tuple[Word, ...] = ()
    none_of: tuple[Word, ...] = ()
    mnemonic: tuple[str, ...] = ()
    not_mnemonic: tuple[str, ...] = ()
    writes: tuple[RegisterKind, ...] = ()
    reads: tuple[RegisterKind, ...] = ()
    depctr: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)


class Via(Frozen, frozen=True):
    """The registers that tie producer (`produced`) and consumer (`consumed`) together.

    `match`: `overlap` any register in common; `exact` the same registers; `partial` some in common, but not
    the same.
    """

    produced: Role
    consumed: Role
    of: RegisterKind = "any"
    match: Literal["overlap", "exact", "partial"] = "overlap"


class End(Selector, frozen=True, eq=False):
    """Something that ends the danger after `times` occurrences.

    `anything`: every wait state occurs. `reads_primed`: only if its operands name a register that the row's
    priming has touched (`times` is 1 then).
    """

    times: int = 1
    anything: bool = False
    reads_primed: bool = False


class Priming(Frozen, frozen=True):
    """What must have happened before the producer: an instruction of this kind touched its registers.

    `pairs`: the hardware tracks 64-bit pairs, so touching one half counts for both. `by_others`: callers and callees
    may have done it, so everything counts as touched where a function begins and after a call; LLVM takes that into
    account for some rows only, and for the others code that it wrote must not be called wrong. `since_written`: only
    what touched a register before the producer and since it was written last; else the producer's own reads count,
    too, and so does what came before an earlier write.
    """

    by: Selector
    role: Role
    of: RegisterKind
    pairs: bool = False
    by_others: bool = False
    since_written: bool = False
    until: tuple[End, ...] = ()


class Described(Frozen, frozen=True):
    """What everything in the table has."""

    id: str
    title: str
    source: Words
    known: Known


class HazardRow(Described, frozen=True):
    """What all rows have. `targets`: names of targets or families; `wave_sizes`: empty means all."""

    producer: Selector
    consumer: Selector
    via: Via | None = None
    wave_sizes: tuple[int, ...] = ()
    severity: Severity = "error"
    note: str = ""
    disagrees: str = ""


class WaitStateRow(HazardRow, frozen=True, kw_only=True):
    """Needs a number of wait states between the two.

    `need`: by target or family (the target's name goes first), a number or a table by the producer's passes.
    `same_opcode`: whether the two opcodes must be equal (True) or different (False).
    """

    need: dict[str, int | dict[int, int]]
    same_opcode: bool | None = None

    def needed(self, target: str, family: str) -> int | dict[int, int]:
        """Wait states on this target; 0 when the row does not hold there."""
        return self.need.get(target, self.need.get(family, 0))


class Softening(Frozen, frozen=True):
    """After `times` instructions of a kind sources disagree whether the danger is over: a warning then."""

    after: End
    why: str


class SequenceRow(HazardRow, frozen=True, kw_only=True):
    """Is in danger until something happens.

    `only_with_xnack`: only where accesses may be replayed (XNACK), so not in code that is built without.
    `counted`: the consumer can wait by itself; the named modifier of it must be at most the number of
    instructions of the first `until` row seen so far (0 if `counted_zero_after` was seen).
    """

    targets: tuple[str, ...]
    until: tuple[End, ...]
    arm: Selector | None = None
    primed_by: Priming | None = None
    counted: str = ""
    counted_zero_after: Selector | None = None
    softens: Softening | None = None
    only_with_xnack: bool = False
    mend: str

    def holds_for(self, target: str, family: str) -> bool:
        """Whether the target has this hazard."""
        return target in self.targets or family in self.targets


class PartialForwarding(Described, frozen=True, kw_only=True):
    """VALUPartialForwarding, a pattern of four instructions; see analysis.hazards. It counts VALU."""

    targets: tuple[str, ...]
    wave_sizes: tuple[int, ...]
    before_and_after_exec: int
    before_use: int
    mend: str
    severity: Severity = "error"


class HighShift(Described, frozen=True, kw_only=True):
    """Shift64HighRegBug: one instruction whose shift amount lies in the last register of an allocation."""

    targets: tuple[str, ...]
    mnemonic: tuple[str, ...]
    granule: int
    mend: str


class HazardTable(Frozen, frozen=True):
    """The whole file."""

    wait_states: tuple[WaitStateRow, ...]
    sequences: tuple[SequenceRow, ...]
    partial_forwarding: PartialForwarding
    high_shift: HighShift


@cache
def hazard_table() -> HazardTable:
    """The rows of all targets. Raises msgspec.ValidationError when the file is not of this form."""
    return convert(data_files.read("hazards"), HazardTable)
