"""The emulation gate: original and candidate run on the same data and must leave the same bytes.

The proof says so already; this is an independent witness, for it rests on what instructions compute and not on the
symbolic argument. Both versions run the launch of a manifest: once with the manifest's data, then with floating-point
inputs replaced by edge values (zeros of both signs, infinities, NaNs, the smallest and largest numbers) among
random bits, each time with another interleaving of waves. Every byte of every result is compared. Where the original
itself does not end well on some data, that data says nothing and is left out; if none is left, the gate cannot decide.

Results that depend on the order in which waves reach an atomic may differ between interleavings, so both versions run
with the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asmevo.emulator import LaunchManifest, Outcome, RunOptions, RunResult, make_buffers, run
from asmevo.emulator.manifest import Array
from asmevo.gates.gate import Verdict, VerdictKind
from asmevo.program import WriteError, read_program, write_program
from asmevo.program.candidate import Candidate
from asmevo.program.kernel import Kernel
from asmevo.program.program import Program

_ROUNDS = 2
_EDGE_SHARE = 0.25
_FLOATS = ("f16", "f32", "f64")
_GOOD = (Outcome.MATCHES, Outcome.RAN, Outcome.DIFFERS)  # it ended; `differs` is from the manifest's expectation


@dataclass(frozen=True, slots=True)
class _Round:
    """One set of data with what the original leaves."""

    seed: int
    buffers: Mapping[str, Array]
    original: RunResult


class EmulationGate:
    """Runs the original when it is made, candidates when asked."""

    name = "emulation"

    def __init__(self, program: Program, kernel: Kernel, manifest: LaunchManifest) -> None:
        self._program = program
        self._manifest = manifest
        self._rounds: list[_Round] = []
        self._refusal = ""
        for seed in range(_ROUNDS):
            buffers = _data(manifest, seed)
            result = self._run(program, kernel, buffers, seed)
            if result.outcome in _GOOD:
                self._rounds.append(_Round(seed, buffers, result))
            elif not self._refusal:
                self._refusal = result.problems[0] if result.problems else result.outcome.value

    def judge(self, candidate: Candidate) -> Verdict:
        """See Gate.judge."""
        if not self._rounds:
            return Verdict(self.name, VerdictKind.UNDECIDED, f"the original does not run: {self._refusal}")
        try:
            data = write_program(self._program, {candidate.parent.name: candidate.kernel})
        except WriteError as error:
            return Verdict(self.name, VerdictKind.REJECTED, str(error))
        program = read_program(data, self._program.file)
        kernel = program.kernel(candidate.parent.name)
        for each in self._rounds:
            result = self._run(program, kernel, each.buffers, each.seed)
            if result.outcome not in _GOOD:
                words = result.problems[0] if result.problems else result.outcome.value
                return Verdict(self.name, VerdictKind.REJECTED, f"with data {each.seed}: {words}")
            difference = _difference(each.original.outputs, result.outputs)
            if difference is not None:
                return Verdict(self.name, VerdictKind.REJECTED, f"with data {each.seed}: {difference}")
        return self._accepted()

    def _accepted(self) -> Verdict:
        count = sum(each.original.instructions for each in self._rounds)
        outputs = self._rounds[0].original.outputs
        size = sum(output.nbytes for output in outputs.values())
        launches = f"{len(self._rounds)} launches of {self._manifest.name}"
        words = f"{launches}: all {size} bytes of {len(outputs)} results equal"
        evidence = {"launches": len(self._rounds), "bytes": size, "instructions": count}
        return Verdict(self.name, VerdictKind.ACCEPTED, words, evidence=evidence)

    def _run(self, program: Program, kernel: Kernel, buffers: Mapping[str, Array], seed: int) -> RunResult:
        return run(program, kernel, self._manifest, buffers=buffers, options=RunOptions(seed=seed))


def _data(manifest: LaunchManifest, seed: int) -> dict[str, Array]:
    """The manifest's own data for seed 0; for others floating-point inputs are mixed with edge values."""
    buffers = make_buffers(manifest)
    if seed == 0:
        return buffers
    rng = np.random.default_rng(seed)
    for argument in manifest.buffers:
        if argument.direction != "out" and argument.dtype in _FLOATS:
            buffers[argument.name] = _with_edges(buffers[argument.name], rng)
    return buffers


def _with_edges(values: Array, rng: np.random.Generator) -> Array:
    kind = values.dtype
    info = np.finfo(kind)
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.smallest_subnormal, info.max, info.min], kind
    )
    noise = np.frombuffer(rng.bytes(values.nbytes), kind).reshape(values.shape)
    choice = rng.random(values.shape)
    mixed = np.where(choice < _EDGE_SHARE, rng.choice(edges, values.shape), values)
    return np.where(choice > 1 - _EDGE_SHARE, noise, mixed).astype(kind)


def _difference(want: Mapping[str, Array], got: Mapping[str, Array]) -> str | None:
    """The first element that is not the same to the bit."""
    for name, before in want.items():
        after = got[name]
        raw = np.dtype(f"u{before.dtype.itemsize}")
        places = np.flatnonzero(before.view(raw).reshape(-1) != after.view(raw).reshape(-1))
        if places.size:
            first = int(places[0])
            old, new = before.reshape(-1)[first], after.reshape(-1)[first]
            return f"{name}[{first}] is {new!s}, the original has {old!s} ({places.size} elements differ)"
    return None
