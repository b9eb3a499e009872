"""Proved, refuted or undecided: the steps from cheap to dear, and the one answer.

1. The same launch: target, wave size, and what the descriptors say of registers and memory at the start.
2. Structure (`equivalence`): blocks as uninterpreted operations. Quick; settles every reordering and renaming
   inside of blocks.
3. Changed blocks by themselves, in terms: `Product.compare_blocks` where the graph is the same, where a branch went
   or came `Stretches`.
4. The whole kernels, with a relation that is inferred (`Product.compare`).
5. Running both (`replay`), on the solver's models and on drawn states. Only this refutes.

Steps 2 to 4 prove, each with its own argument; a step that does not prove says nothing. The answer of a comparison
that neither proved nor refuted is undecided, with the reason of the last step that tried.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asmevo.analysis.control_flow import ControlFlow
from asmevo.program.instruction import Instruction
from asmevo.program.kernel import Kernel
from asmevo.prover.equivalence import Answer, Prover
from asmevo.prover.exceptions import exceptions_matter
from asmevo.prover.floating import FloatPolicy
from asmevo.prover.modelling import starts_of
from asmevo.prover.product import Product, ProductResult
from asmevo.prover.replay import Counterexample, Replay, Start
from asmevo.prover.solver import SolverLimits, steps_of
from asmevo.prover.stretches import Stretches

_ABI_FIELDS = (
    "user_sgpr_count", "system_sgpr_workgroup_id_x", "system_sgpr_workgroup_id_y", "system_sgpr_workgroup_id_z",
    "system_sgpr_workgroup_info", "system_vgpr_workitem_id", "enable_private_segment", "float_round_mode_32",
    "float_round_mode_16_64", "float_denorm_mode_32", "float_denorm_mode_16_64", "fp16_overflow",
)  # fmt: skip


_EXCEPTIONS = "exceptions of arithmetic may be noticed here, and terms say nothing of them"
_PATIENCE = 4  # how many times longer than on a quiet machine a proof may take


class Outcome(Enum):
    """What can be said of two versions."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class ProofLimits(Struct, frozen=True):
    """How much is tried, in work that is the same on any machine.

    `question` and `total` are steps of the solver (`SolverLimits`); `draws` states are run, none at all with 0, until
    `replay` wave instructions were run. With `whole` off, a change of one block is compared in that block only; with
    `reshaped` off, loops that make other rounds than before (unrolled, peeled) are not looked for. A step of the
    answer also ends after `seconds`, the last resort.
    """

    question: int = SolverLimits().question
    total: int = SolverLimits().total
    draws: int = 24
    replay: int = 200_000
    whole: bool = True
    reshaped: bool = True
    seconds: float = SolverLimits().seconds

    @classmethod
    def of_seconds(cls, seconds: float) -> ProofLimits:
        """The work that a quiet core does in some seconds, about; on a busy one it takes longer, up to a point."""
        steps = steps_of(seconds)
        return cls(question=steps, total=steps, seconds=_PATIENCE * seconds)


class ProofResult(Struct, frozen=True):
    """The answer; `instructions` are ids to blame, in the version before or after; `method` is the step that proved."""

    outcome: Outcome
    reason: str
    policy: FloatPolicy
    method: str = ""
    blocks: tuple[int, ...] = ()
    instructions: tuple[int, ...] = ()
    counterexample: Counterexample | None = None
    questions: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "outcome": self.outcome.value,
            "reason": self.reason,
            "floating_point": str(self.policy),
            "method": self.method or None,
            "blocks": list(self.blocks),
            "instructions": list(self.instructions),
            "counterexample": None if self.counterexample is None else self.counterexample.to_dict(),
            "solver_questions": self.questions,
            "seconds": round(self.seconds, 4),
        }


class KernelProver:
    """Proves versions of one kernel; what is known of the kernel is kept from one to the next."""

    def __init__(
        self,
        before: Kernel,
        policy: FloatPolicy = FloatPolicy.EXACT,
        limits: ProofLimits = ProofLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self.before = before
        self.policy = policy
        self.limits = limits
        self.structure = Prover(before)
        self._exceptions_matter = exceptions_matter(before)

    def prove(self, after: Kernel) -> ProofResult:
        """Compares a version with the kernel, for the launches that the kernel allows."""
        started = time.perf_counter()
        if after.whole_waves != self.before.whole_waves:
            after = replace(after, whole_waves=self.before.whole_waves)
        other_launch = _launch_difference(self.before, after)
        if other_launch is not None:
            return self._result(started, Outcome.UNDECIDED, other_launch)
        proof = self.structure.prove(after)
        if proof.answer is Answer.EQUIVALENT:
            return self._result(started, Outcome.PROVED, proof.reason, "structure", proof.blocks)
        nothing = (ProductResult(False, _EXCEPTIONS), list[Start]())
        result, models = nothing if self._exceptions_matter else self._in_terms(after)
        if result.proved:
            method = "solver" if result.questions else "terms"
            return self._result(started, Outcome.PROVED, result.reason, method, questions=result.questions)
        found = self._refuted(after, models)
        ids = tuple(each.id for each in result.instructions)
        if found is not None:
            return self._result(
                started, Outcome.REFUTED, found.difference, "", (), found.instructions or ids, found, result.questions
            )
        return self._result(
            started, Outcome.UNDECIDED, _located(result), "", (), ids, None, result.questions
        )  # fmt: skip

    def _in_terms(self, after: Kernel) -> tuple[ProductResult, list[Start]]:
        """The proof in terms, and states to replay where it failed.

        Blocks by themselves say nothing of where they lie, so a change of the layout that matters goes to the whole.
        """
        limits = SolverLimits(self.limits.question, self.limits.total, self.limits.seconds)
        changed = _changed_blocks(self.before, after)
        if changed is not None and self.structure.layout(after) is None:
            if ControlFlow(self.before).successors == ControlFlow(after).successors:
                result = Product(self.before, after, self.policy, limits).compare_blocks(changed)
                if result.proved or (len(changed) == 1 and not self.limits.whole):
                    return result, []
            else:
                result = Stretches(self.before, after, self.policy, limits).compare_changed(changed)
                if result.proved:
                    return result, []
        whole = Product(self.before, after, self.policy, limits)
        result = whole.compare(reshaped=self.limits.reshaped)
        return result, [] if result.proved else starts_of(whole.build, result.models)

    def _refuted(self, after: Kernel, starts: list[Start]) -> Counterexample | None:
        """A difference that was run. What a looser policy allows is no difference, so only `exact` is refuted."""
        if self.policy is not FloatPolicy.EXACT or not self.limits.draws:
            return None
        replay = Replay(self.before, after)
        return replay.search(starts, self.limits.draws, self.limits.seconds, self.limits.replay)

    def _result(
        self,
        started: float,
        outcome: Outcome,
        reason: str,
        method: str = "",
        blocks: tuple[int, ...] = (),
        instructions: tuple[int, ...] = (),
        counterexample: Counterexample | None = None,
        questions: int = 0,
    ) -> ProofResult:
        seconds = time.perf_counter() - started
        return ProofResult(
            outcome, reason, self.policy, method, blocks, instructions, counterexample, questions, seconds
        )


def prove_kernels(
    before: Kernel, after: Kernel, policy: FloatPolicy = FloatPolicy.EXACT, limits: ProofLimits | None = None
) -> ProofResult:
    """Whether two kernels do the same. For many versions of one kernel use KernelProver."""
    return KernelProver(before, policy, limits or ProofLimits()).prove(after)


def _located(result: ProductResult) -> str:
    lines = [str(each.line) for each in result.instructions if each.line is not None]
    return result.reason + (f" (line {' and '.join(dict.fromkeys(lines))})" if lines else "")


def _launch_difference(before: Kernel, after: Kernel) -> str | None:
    """Why one launch cannot start both; None if it can."""
    if before.target.name != after.target.name:
        return f"one is for {before.target.name}, the other for {after.target.name}"
    if before.wave_size != after.wave_size:
        return f"one is for waves of {before.wave_size} lanes, the other of {after.wave_size}"
    first, second = before.descriptor, after.descriptor
    if first is second:
        return None
    if (first is None) != (second is None):
        return "one is a kernel, the other a function or fragment"
    if first is None or second is None:
        return None
    if first.user_sgprs() != second.user_sgprs():
        return "their descriptors ask for different user SGPRs"
    for name in _ABI_FIELDS:
        if first.field(name) != second.field(name):
            return f"their descriptors differ in {name}"
    if first.group_segment_size != second.group_segment_size:
        return "their descriptors ask for different amounts of LDS"
    return None


def _changed_blocks(before: Kernel, after: Kernel) -> list[int] | None:
    """Blocks with other code, where the labels are the same; None where they are not."""
    if [block.labels for block in before.blocks] != [block.labels for block in after.blocks]:
        return None
    pairs = zip(before.blocks, after.blocks, strict=True)
    return [old.index for old, new in pairs if old is not new and _code(old.instructions) != _code(new.instructions)]


def _code(instructions: tuple[Instruction, ...]) -> list[tuple[bytes, str | None]]:
    return [(each.decoded.code, each.target) for each in instructions]
