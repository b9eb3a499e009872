"""Writes docs/gains.md: what the search gains on the compilers' own kernels, every row verified.

    python tools/gain_table.py [--targets a,b] [--kernels GLOB,GLOB] [--share I/N] [--budget 60]
                               [--proposers a,b | --alone] [--keep FILE...] [--write]

One row is one launch of `tests/data/launches` on one target. The search runs at level standard with the launch's
manifest, so the offer has run on the emulator beside the original: the manifest's data, fuzzed data, asynchronous
memory. Of Triton's kernels it is told that all waves are whole: their launcher starts no other workgroup than the one
that they were compiled for, of a whole number of waves. Then the offer is written into the file, and the file that came
out runs against the original under more asynchronous seeds. A row with a difference stays in the table and says so; one
whose runs were given up did not differ and is not verified: a failure, with the reason.

Rows are appended to the first file of `--keep` as they are made. What is in one of its files, made by the same state of
the sources, is not made again; so a sweep can be stopped, continued and shared: `--share 2/3` takes every third launch
from the second on, and each process has a file of its own. Their order is mixed, but always the same, so a part of a
sweep is a sample. `--alone` makes the rows for each built-in proposer by itself; those of one launch come one after the
other, so that what is known of the original is found out once. A row that fails is kept with the reason.
`--write` writes the document from all rows that are kept, the latest of each, and sweeps nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import hashlib
import math
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs, launch, program_of  # noqa: E402

from asmevo.doors.start import collect_seldom  # noqa: E402
from asmevo.emulator import Trial, Unfinished, Witness, make_buffers  # noqa: E402
from asmevo.program import read_program, write_program  # noqa: E402
from asmevo.program.edit import apply_script  # noqa: E402
from asmevo.program.kernel import Kernel  # noqa: E402
from asmevo.proposers import BUILT_IN  # noqa: E402
from asmevo.proposers.asking import what_happened  # noqa: E402
from asmevo.search import Budget, Ledger, OptimizationRun, SearchOptions, optimize  # noqa: E402
from asmevo.search.patch import Measures  # noqa: E402
from asmevo.timing import estimate  # noqa: E402

TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
ALL = "all"
MATRIX_WORK = ("matmul", "gemm", "attention", "mlp")
SEEDS = range(101, 104)  # of the asynchronous runs of the written file; the emulation gate has its own
DOCUMENT = ROOT / "docs" / "gains.md"
KEEP = ROOT / ".asmevo" / "gain_table.jsonl"

HEAD = """# What the search gains

Written by `tools/gain_table.py`; do not edit. {rows} rows, each with a budget of {budget}, one process. A row
is one launch of a kernel as the compiler made it (Triton or clang, see tests/data/compiled_programs.README.md),
optimised at level standard; of Triton's kernels the search was told that all waves are whole, as its launcher starts
no others (`--whole-waves`).
Gains are predictions of the cycle model, not measurements: the geometric mean over a lone wave and as many waves as
occupancy allows (at most 4), memory answering from L2. `cold` and `at once` are what the same offer gains if memory
answers from nowhere nearer than DRAM, or at once, `8 waves` with so many on the SIMD (`-` where fewer fit).
`filled SIMD` is about the best offer that lets in more waves than its original, which is not always the best of all:
waves a SIMD before -> after, and by how much more waves end in a cycle if the launch has enough of them, with what the
number of waves alone brings (see search.md).
`measured` is the share of the lone wave's predicted cycles whose latencies were measured on silicon, `of the gain`
that share of the cycles that were saved. Waits, VOPD pairs, VGPRs (live, highest) and waves (occupancy a SIMD) are
before -> after.

Every offer passed all gates and ran on the emulator beside its original under its launch manifest; then the written
file ran beside the original with asynchronous memory under {seeds} more seeds: {different} of {verified} differed.
{failed} rows failed{mixed}.

The largest gains are waits for global loads: compilers wait for the loads of the next iteration in front of the barrier
that ends this one, and a version that hides them behind other work saves what a load takes. Such a gain is as good as
that number; `cold`, `at once` and `of the gain` say how much of it stands with another one, `8 waves` how much of it
other waves would hide anyway. Cache invalidations
(`global_inv`, `buffer_inv`) hold nothing up in the model, because no trace holds one: no gain rests on their time, but
those that keep loads in flight across one rest on it not waiting for them.

"""


Key = tuple[str, str, str]


class Step(Struct, frozen=True):
    """The best offer that lets in more waves, (before, after); shares as in `OccupancyStep`; its rank of the offers."""

    waves: tuple[int, int]
    throughput: float
    by_waves: float
    rank: int

    def __str__(self) -> str:
        more = f"{_change(self.waves)}: +{_percent(self.throughput)} ({_percent(self.by_waves)})"
        return more if self.rank == 1 else f"{more}, offer {self.rank}"


class Row(Struct, frozen=True):
    """One launch on one target. `proposers` is `all` or a name; numbers are (before, after).

    `elsewhere` are gains by memory scenario, `crowded` by waves on a fuller SIMD. `tree` names the state of the
    sources; `failure` says why there is no more.
    """

    launch: str
    target: str
    proposers: str
    budget: str
    gain: float = 0.0
    waits: tuple[int, int] = (0, 0)
    dual_pairs: tuple[int, int] = (0, 0)
    vgprs: tuple[int, int] = (0, 0)
    occupancy: tuple[int, int] = (0, 0)
    measured: float = 0.0
    tried: int = 0
    accepted: int = 0
    gates: tuple[str, ...] = ()
    seeds: int = 0
    difference: str = ""
    seconds: float = 0.0
    measured_gain: float = 0.0
    elsewhere: dict[str, float] = {}
    crowded: dict[str, float] = {}
    step: Step | None = None
    tree: str = ""
    failure: str = ""

    @property
    def key(self) -> Key:
        """What a row is about."""
        return self.launch, self.target, self.proposers

    @property
    def is_matrix_work(self) -> bool:
        """Whether it is a matrix product or attention."""
        return any(word in self.launch for word in MATRIX_WORK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--kernels", default="*", help="only launches whose name matches one of these, with commas")
    parser.add_argument("--share", default="1/1", help="I/N: every N-th launch from the I-th on")
    parser.add_argument("--budget", default="60", help="for each row, as for `asmevo optimize`")
    parser.add_argument("--proposers", default=ALL, help="names with commas, as one portfolio")
    parser.add_argument("--alone", action="store_true", help="each built-in proposer by itself")
    parser.add_argument("--keep", type=Path, nargs="+", default=[KEEP], help="rows are added to the first")
    parser.add_argument("--write", action="store_true", help="write the document from the rows that are kept")
    asked = parser.parse_args()
    collect_seldom()
    rows = [row for file in asked.keep for row in kept_rows(file)]
    if asked.write:
        write_document(latest(rows))
        return
    part, parts = map(int, asked.share.split("/"))
    portfolios = list(BUILT_IN) if asked.alone else [asked.proposers]
    own = pairs(asked.targets, asked.kernels)[part - 1 :: parts]
    sweep(
        [(*pair, portfolio) for pair in own for portfolio in portfolios], rows, asked.keep[0], Budget.of(asked.budget)
    )


def sweep(keys: Sequence[Key], rows: Iterable[Row], file: Path, budget: Budget) -> None:
    """Makes the rows that are not there yet, with a line for each."""
    state, started = tree(), time.monotonic()
    there = {(row.key, row.budget) for row in rows if row.tree == state}
    wanted = [key for key in keys if (key, str(budget)) not in there]
    print(f"{len(keys) - len(wanted)} of {len(keys)} rows are there", flush=True)
    for number, key in enumerate(wanted, 1):
        row = replace(made_row(*key, budget), tree=state)
        keep(file, row)
        spent = time.monotonic() - started
        left = spent / number * (len(wanted) - number) / 60
        words = row.failure or row.difference or f"{100 * row.gain:.1f} %"
        print(f"{number}/{len(wanted)}, {left:.0f} min left: {' '.join(key)}, {row.seconds:.0f} s: {words}", flush=True)


def pairs(targets: str, globs: str) -> list[tuple[str, str]]:
    """(launch, target), mixed."""
    names, wanted = targets.split(","), globs.split(",")
    found = [
        pair for pair in all_pairs() if pair[1] in names and any(fnmatch.fnmatch(pair[0], glob) for glob in wanted)
    ]
    random.Random(0).shuffle(found)
    return found


def tree() -> str:
    """The state of the package's sources and facts."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "src").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def kept_rows(file: Path) -> Iterator[Row]:
    """The rows of a file; none where there is no file. A line that was cut off by a kill is passed over."""
    if not file.is_file():
        return
    for line in file.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=Row)
        except msgspec.MsgspecError:
            continue


def latest(rows: Iterable[Row]) -> list[Row]:
    """The last row of each key."""
    return list({row.key: row for row in rows}.values())


def keep(file: Path, row: Row) -> None:
    """Appends a row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.write(b"\n" * _needs_a_new_line(file) + msgspec.json.encode(row) + b"\n")


def _needs_a_new_line(file: Path) -> bool:
    data = file.read_bytes()
    return bool(data) and not data.endswith(b"\n")


def made_row(name: str, target: str, proposers: str, budget: Budget) -> Row:
    """The row, or one that says why there is none: a defect in one must not end a sweep of hours."""
    started = time.monotonic()
    try:
        row = make_row(name, target, proposers, budget)
    except Exception as error:
        traceback.print_exc()
        row = Row(name, target, proposers, str(budget), failure=what_happened(error))
    return replace(row, seconds=round(time.monotonic() - started, 1))


def make_row(name: str, target: str, proposers: str, budget: Budget) -> Row:
    """Searches, applies, and runs what came out."""
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    options = SearchOptions(budget=budget, launch=manifest, offers=2, whole_waves=launcher_keeps_waves_whole(kernel))
    if proposers != ALL:
        options = replace(options, built_in=tuple(proposers.split(",")))
    with tempfile.TemporaryDirectory() as root:
        run = optimize(program, kernel, options, Ledger(Path(root)))
    row = _row(run, name, target, proposers, budget)
    if not run.patch.candidates:
        return row
    best = run.patch.candidates[0]
    made = apply_script(kernel, best.script)
    written = read_program(write_program(program, {kernel.name: made}), program.file)
    original = witness(name, target)
    found = original.examine(written, written.kernel(kernel.name))
    if isinstance(found, Unfinished):
        return Row(name, target, proposers, str(budget), failure=f"not verified: {found}")
    return replace(
        row,
        seeds=len(original.known),
        difference=str(found or ""),
        measured=round(estimate(made, waves=1).known.get("measured", 0.0), 4),
        measured_gain=best.gain_known.get("measured", 0.0),
        elsewhere=best.gain_elsewhere,
        crowded=best.gain_crowded,
        step=_step(run),
    )


def launcher_keeps_waves_whole(kernel: Kernel) -> bool:
    """Whether it is one of Triton's, told by its note (whole workgroups, no language): a user of those may say so."""
    metadata = kernel.metadata or {}
    return metadata.get(".uniform_work_group_size") == 1 and ".language" not in metadata


@functools.lru_cache(maxsize=1)
def witness(name: str, target: str) -> Witness:
    """The original under each seed with asynchronous memory."""
    program, manifest = program_of(name, target), launch(name)
    buffers = make_buffers(manifest)
    trials = (Trial(f"asynchronous memory, seed {n}", manifest, buffers, n, True) for n in SEEDS)
    return Witness(program, program.kernel(manifest.symbol), trials)


def _step(run: OptimizationRun) -> Step | None:
    for offer in run.patch.candidates:
        step = offer.occupancy_step
        if step is not None and step.waves[1] > step.waves[0]:
            return Step(step.waves, step.throughput, step.by_waves, offer.rank)
    return None


def _row(run: OptimizationRun, name: str, target: str, proposers: str, budget: Budget) -> Row:
    before, offers = run.patch.before, run.patch.candidates
    after: Measures = offers[0].after if offers else before
    return Row(
        launch=name,
        target=target,
        proposers=proposers,
        budget=str(budget),
        gain=offers[0].predicted_gain if offers else 0.0,
        waits=(before.waits, after.waits),
        dual_pairs=(before.dual_pairs, after.dual_pairs),
        vgprs=(before.vgprs + before.agprs, after.vgprs + after.agprs),
        occupancy=(before.occupancy, after.occupancy),
        tried=run.tried,
        accepted=run.accepted,
        gates=tuple(str(verdict["gate"]) for verdict in offers[0].verdicts) if offers else (),
    )


def write_document(rows: Sequence[Row]) -> None:
    """The table, the means, and the means for each proposer alone."""
    whole = sorted((row for row in rows if row.proposers == ALL), key=lambda row: (row.target, row.launch))
    verified, states = [row for row in rows if row.seeds], {row.tree for row in rows}
    head = HEAD.format(
        rows=len(whole),
        budget=" or ".join(sorted({_spoken(row.budget) for row in whole})),
        seeds=len(SEEDS),
        different=sum(bool(row.difference) for row in verified),
        verified=len(verified),
        failed=sum(bool(row.failure) for row in rows),
        mixed=f"; the rows were made by {len(states)} states of the sources" if len(states) > 1 else "",
    )
    sound = [row for row in rows if not row.failure]
    means = _means([row for row in whole if not row.failure])
    DOCUMENT.write_text(head + "\n".join((*means, *_alone(sound), *_table(whole))) + "\n", encoding="utf-8")


def _spoken(budget: str) -> str:
    return budget if budget.endswith("s") else f"{budget} candidates"


def _means(rows: Sequence[Row]) -> list[str]:
    lines = ["## Geometric means", "", f"| target | {' | '.join(MEANS)} |", f"|---|{'---|' * len(MEANS)}"]
    for target in (*sorted({row.target for row in rows}, key=lambda name: (len(name), name)), "all"):
        own = [row for row in rows if target in (row.target, "all")]
        lines.append(f"| {target} | {' | '.join(_mean_cells(own))} |")
    return [*lines, ""]


MEANS = (
    *("rows", "improved", "gain", "cold", "at once", "matmul and attention", "waits", "VOPD pairs", "VGPRs"),
    *("occupancy steps", "measured", "of the gain"),
)


def _mean_cells(rows: Sequence[Row]) -> tuple[str, ...]:
    """What `MEANS` names: geometric means of gains, sums before -> after, means over what was improved."""
    matrix = [row for row in rows if row.is_matrix_work]
    gained = [row for row in rows if row.gain > 0]
    waits, pairs_, vgprs = (
        tuple(sum(getattr(row, what)[side] for row in rows) for side in (0, 1))
        for what in ("waits", "dual_pairs", "vgprs")
    )
    count = max(len(gained), 1)
    return (
        str(len(rows)),
        str(len(gained)),
        *(_percent(mean_gain(rows, memory)) for memory in ("", "cold", "lds-only")),
        f"{_percent(mean_gain(matrix))} ({len(matrix)})" if matrix else "-",
        _change(waits),
        _change(pairs_) if any(pairs_) else "-",
        _change(vgprs),
        str(sum(row.step is not None for row in rows)),
        _percent(sum(row.measured for row in gained) / count),
        _percent(sum(row.measured_gain for row in gained) / count),
    )


def mean_gain(rows: Iterable[Row], memory: str = "") -> float:
    """One less the geometric mean of the shares of cycles that are left (in a scenario); 0 for no rows."""
    shares = [1.0 - (row.elsewhere.get(memory, 0.0) if memory else row.gain) for row in rows]
    return 1.0 - math.exp(sum(map(math.log, shares)) / len(shares)) if shares else 0.0


def _alone(rows: Sequence[Row]) -> list[str]:
    names = [name for name in BUILT_IN if any(row.proposers == name for row in rows)]
    if not names:
        return []
    budgets = " or ".join(sorted({_spoken(row.budget) for row in rows if row.proposers in names}))
    lines = ["## Each proposer alone", "", f"With a budget of {budgets}; the portfolio is that of the table below."]
    lines += ["", f"| proposer | {' | '.join(MEANS)} | portfolio |", f"|---|{'---|' * len(MEANS)}---|"]
    for name in names:
        own = [row for row in rows if row.proposers == name]
        places = {(row.launch, row.target) for row in own}
        same = [row for row in rows if row.proposers == ALL and (row.launch, row.target) in places]
        portfolio = f"{_percent(mean_gain(same))} ({len(same)})" if same else "-"
        lines.append(f"| {name} | {' | '.join(_mean_cells(own))} | {portfolio} |")
    return [*lines, "", *_gains_alone(rows, names)]


def _gains_alone(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Predicted gains, a line a launch, a column a proposer."""
    gains = {row.key: row.gain for row in rows}
    launches = sorted({(row.target, row.launch) for row in rows if row.proposers in names})
    yield "## Predicted gain of each proposer alone, by launch"
    yield ""
    yield f"| target | launch | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for target, launch_ in launches:
        cells = (gains.get((launch_, target, name)) for name in names)
        words = ("" if gain is None else _percent(gain) if gain else "-" for gain in cells)
        yield f"| {target} | {launch_} | {' | '.join(words)} |"
    yield ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "## Rows"
    yield ""
    head = "| target | launch | gain | cold | at once | 8 waves | waits | VOPD pairs | VGPRs | waves | filled SIMD |"
    yield f"{head} measured | of the gain | verified |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        pairs_ = _change(row.dual_pairs) if any(row.dual_pairs) else "-"
        if row.failure:
            yield f"| {row.target} | {row.launch} | FAILED {row.failure.replace('|', '/')} |" + " - |" * 11
            continue
        how = f"DIFFERS {row.difference}" if row.difference else f"{len(row.gates)} gates, {row.seeds} seeds"
        cells = (
            row.target,
            row.launch,
            _percent(row.gain) if row.gates else "nothing better",
            *(_percent(row.elsewhere[memory]) if memory in row.elsewhere else "-" for memory in ("cold", "lds-only")),
            _percent(row.crowded["8"]) if "8" in row.crowded else "-",
            _change(row.waits),
            pairs_,
            _change(row.vgprs),
            _change(row.occupancy),
            str(row.step or "-"),
            _percent(row.measured) if row.gates else "-",
            _percent(row.measured_gain) if row.gates else "-",
            how if row.gates else "-",
        )
        yield f"| {' | '.join(cells)} |"


def _change(values: tuple[int, int]) -> str:
    before, after = values
    return str(before) if before == after else f"{before} -> {after}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
