"""A true equation that no normal form shows: the solver has to search for a while."""

from __future__ import annotations

from asmevo.prover.normalise import Builder
from asmevo.prover.solver import Budget, Equality, SolverLimits
from asmevo.prover.terms import Terms

BITS = 6


def asked(limits: SolverLimits) -> tuple[bool | None, int]:
    """x * y from the bits that both have and those that only one has: the answer, and the steps it took."""
    build = Builder(Terms(), 32)
    x, y = (build.terms.symbol(name, BITS, True) for name in ("x", "y"))
    one, other = build.both(x, build.negated(y)), build.both(y, build.negated(x))
    products = (build.product(build.both(x, y), build.either(x, y)), build.product(one, other))
    budget = Budget(limits)
    answer = Equality(build, budget).same(build.operation("add", BITS, products), build.product(x, y))
    return answer, budget.steps


if __name__ == "__main__":
    print(*asked(SolverLimits()))
