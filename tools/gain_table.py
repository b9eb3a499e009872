"""Writes docs/gains.md: what the search gains on the compilers' own kernels, every row verified.

    python tools/gain_table.py [--targets a,b] [--kernels GLOB] [--share I/N] [--budget 6s] [--proposers a,b | --alone]
                               [--keep FILE] [--write]

One row is one launch of `tests/data/launches` on one target. The search runs at level standard with the launch's
manifest, so the offer has run on the emulator beside the original: the manifest's data, fuzzed data, asynchronous
memory. Then it is written into the file, and the file that came out runs against the original under more
asynchronous seeds. A row with a difference stays in the table and says so.

Rows are appended to the file of `--keep` as they are made, and what is there is not made again, so a sweep can be
stopped, continued and shared (`--share 2/3` takes every third row from the second on). Their order is mixed, but
always the same, so a part of a sweep is a sample. `--alone` makes the rows for each built-in proposer by itself.
`--write` writes the document from the rows that are kept, and sweeps nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "program")]

from emulated_launches import all_pairs, launch, program_of  # noqa: E402

from asmevo.emulator import LaunchManifest, Trial, Witness, make_buffers  # noqa: E402
from asmevo.program import read_program, write_program  # noqa: E402
from asmevo.program.edit import apply_script  # noqa: E402
from asmevo.program.kernel import Kernel  # noqa: E402
from asmevo.program.program import Program  # noqa: E402
from asmevo.proposers import BUILT_IN  # noqa: E402
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
optimised at level standard.
Gains are predictions of the cycle model, not measurements: the geometric mean over a lone wave and as many waves as
occupancy allows (at most 4). `measured` is the share of the lone wave's predicted cycles whose latencies were
measured on silicon. Waits, VOPD pairs, VGPRs (live, highest) and waves (occupancy a SIMD) are before -> after.

Every offer passed all gates and ran on the emulator beside its original under its launch manifest; then the written
file ran beside the original with asynchronous memory under {seeds} more seeds: {different} of {verified} differed.

"""


class Row(Struct, frozen=True):
    """One launch on one target. `proposers` is `all` or a name; numbers are (before, after)."""

    launch: str
    target: str
    proposers: str
    budget: str
    gain: float
    waits: tuple[int, int]
    dual_pairs: tuple[int, int]
    vgprs: tuple[int, int]
    occupancy: tuple[int, int]
    measured: float
    tried: int
    accepted: int
    gates: tuple[str, ...]
    seeds: int
    difference: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What a row is about."""
        return self.launch, self.target, self.proposers

    @property
    def is_matrix_work(self) -> bool:
        """Whether it is a matrix product or attention."""
        return any(word in self.launch for word in MATRIX_WORK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--kernels", default="*", help="only launches whose name matches")
    parser.add_argument("--share", default="1/1", help="I/N: every N-th row from the I-th on")
    parser.add_argument("--budget", default="6s", help="for each row, as for `asmevo optimize`")
    parser.add_argument("--proposers", default=ALL, help="names with commas, as one portfolio")
    parser.add_argument("--alone", action="store_true", help="each built-in proposer by itself")
    parser.add_argument("--keep", type=Path, default=KEEP)
    parser.add_argument("--write", action="store_true", help="write the document from the rows that are kept")
    asked = parser.parse_args()
    if asked.write:
        write_document(list(kept_rows(asked.keep)))
        return
    there = {row.key for row in kept_rows(asked.keep)}
    part, parts = map(int, asked.share.split("/"))
    portfolios = list(BUILT_IN) if asked.alone else [asked.proposers]
    wanted = [(*pair, portfolio) for portfolio in portfolios for pair in pairs(asked.targets, asked.kernels)]
    for key in wanted[part - 1 :: parts]:
        if key not in there:
            try:
                row = make_row(*key, Budget.of(asked.budget))
            except Exception:  # a defect in one row must not end a sweep of hours; it is made again next time
                print(" ".join(key), traceback.format_exc(), flush=True)
                continue
            keep(asked.keep, row)
            print(" ".join(key), f"{100 * row.gain:.1f} %", f"{row.seconds:.0f} s", row.difference, flush=True)


def pairs(targets: str, glob: str) -> list[tuple[str, str]]:
    """(launch, target), mixed."""
    names = targets.split(",")
    found = [pair for pair in all_pairs() if pair[1] in names and fnmatch.fnmatch(pair[0], glob)]
    random.Random(0).shuffle(found)
    return found


def kept_rows(file: Path) -> Iterator[Row]:
    """The rows of a file; none where there is no file. A line that was cut off by a kill is passed over."""
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        yield Row(**{key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()})


def keep(file: Path, row: Row) -> None:
    """Appends a row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write("\n" * _needs_a_new_line(file) + json.dumps(asdict(row)) + "\n")


def _needs_a_new_line(file: Path) -> bool:
    data = file.read_bytes()
    return bool(data) and not data.endswith(b"\n")


def make_row(name: str, target: str, proposers: str, budget: Budget) -> Row:
    """Searches, applies, and runs what came out."""
    started = time.monotonic()
    program, manifest = program_of(name, target), launch(name)
    kernel = program.kernel(manifest.symbol)
    options = SearchOptions(budget=budget, launch=manifest, offers=1)
    if proposers != ALL:
        options = replace(options, built_in=tuple(proposers.split(",")))
    with tempfile.TemporaryDirectory() as root:
        run = optimize(program, kernel, options, Ledger(Path(root)))
    row = _row(run, name, target, proposers, budget)
    if run.patch.candidates:
        made = apply_script(kernel, run.patch.candidates[0].script)
        row = replace(row, **_checked(program, kernel, made, manifest))
    return replace(row, seconds=round(time.monotonic() - started, 1))


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
        measured=0.0,
        tried=run.tried,
        accepted=run.accepted,
        gates=tuple(str(verdict["gate"]) for verdict in offers[0].verdicts) if offers else (),
        seeds=0,
        difference="",
        seconds=0.0,
    )


def _checked(program: Program, kernel: Kernel, made: Kernel, manifest: LaunchManifest) -> dict[str, object]:
    """The written file against the original, asynchronous, each seed; and how well the prediction's facts are known."""
    written = read_program(write_program(program, {kernel.name: made}), program.file)
    buffers = make_buffers(manifest)
    trials = (Trial(f"asynchronous memory, seed {n}", manifest, buffers, n, True) for n in SEEDS)
    witness = Witness(program, kernel, trials)
    difference = witness.examine(written, written.kernel(kernel.name))
    known = estimate(made, waves=1).known
    return {
        "seeds": len(witness.known),
        "difference": str(difference or ""),
        "measured": round(known.get("measured", 0.0), 4),
    }


def write_document(rows: Sequence[Row]) -> None:
    """The table, the means, and the means for each proposer alone."""
    whole = sorted((row for row in rows if row.proposers == ALL), key=lambda row: (row.target, row.launch))
    verified = [row for row in rows if row.seeds]
    head = HEAD.format(
        rows=len(whole),
        budget=" or ".join(sorted({_spoken(row.budget) for row in whole})),
        seeds=len(SEEDS),
        different=sum(bool(row.difference) for row in verified),
        verified=len(verified),
    )
    DOCUMENT.write_text(head + "\n".join((*_means(whole), *_alone(rows), *_table(whole))) + "\n", encoding="utf-8")


def _spoken(budget: str) -> str:
    return budget if budget.endswith("s") else f"{budget} candidates"


def _means(rows: Sequence[Row]) -> list[str]:
    lines = ["## Geometric means", "", "| target | rows | improved | gain | matmul and attention | "]
    lines[-1] += "VOPD pairs | occupancy steps | measured |"
    lines.append("|---|---|---|---|---|---|---|---|")
    for target in (*sorted({row.target for row in rows}, key=lambda name: (len(name), name)), "all"):
        own = [row for row in rows if target in (row.target, "all")]
        matrix = [row for row in own if row.is_matrix_work]
        before, after = (sum(row.dual_pairs[side] for row in own) for side in (0, 1))
        gained = [row for row in own if row.gain > 0]
        steps = sum(row.occupancy[1] > row.occupancy[0] for row in own)
        measured = sum(row.measured for row in gained) / len(gained) if gained else 0.0
        cells = (
            target,
            str(len(own)),
            str(len(gained)),
            _percent(mean_gain(own)),
            f"{_percent(mean_gain(matrix))} ({len(matrix)})" if matrix else "-",
            f"{before} -> {after}" if before or after else "-",
            str(steps),
            _percent(measured),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def mean_gain(rows: Iterable[Row]) -> float:
    """One less the geometric mean of the shares of cycles that are left; 0 for no rows."""
    shares = [1.0 - row.gain for row in rows]
    return 1.0 - math.exp(sum(map(math.log, shares)) / len(shares)) if shares else 0.0


def _alone(rows: Sequence[Row]) -> list[str]:
    names = [name for name in BUILT_IN if any(row.proposers == name for row in rows)]
    if not names:
        return []
    lines = ["## Each proposer alone", "", "On the rows that were made for it, the portfolio's beside them.", ""]
    lines += ["| proposer | rows | improved | gain | portfolio | VOPD pairs |", "|---|---|---|---|---|---|"]
    for name in names:
        own = [row for row in rows if row.proposers == name]
        places = {(row.launch, row.target) for row in own}
        same = [row for row in rows if row.proposers == ALL and (row.launch, row.target) in places]
        before, after = (sum(row.dual_pairs[side] for row in own) for side in (0, 1))
        improved = sum(row.gain > 0 for row in own)
        portfolio = f"{_percent(mean_gain(same))} ({len(same)})" if same else "-"
        gains = f"{_percent(mean_gain(own))} | {portfolio}"
        lines.append(f"| {name} | {len(own)} | {improved} | {gains} | {before} -> {after} |")
    return [*lines, ""]


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "## Rows"
    yield ""
    yield "| target | launch | gain | waits | VOPD pairs | VGPRs | waves | measured | verified |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        pairs_ = _change(row.dual_pairs) if any(row.dual_pairs) else "-"
        how = f"DIFFERS {row.difference}" if row.difference else f"{len(row.gates)} gates, {row.seeds} seeds"
        cells = (
            row.target,
            row.launch,
            _percent(row.gain) if row.gates else "nothing better",
            _change(row.waits),
            pairs_,
            _change(row.vgprs),
            _change(row.occupancy),
            _percent(row.measured) if row.gates else "-",
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
