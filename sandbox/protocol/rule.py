"""What counts as right, as a sentence for people.  Reports show it, and boards compare only what was judged by one rule."""

from __future__ import annotations

from sandbox.protocol import wire


def rule_of(problem: wire.ProblemSpec) -> str:
    """The problem's rule: its format's own, or its tolerance, with what differs at workloads that are shown."""
    if problem.rule:
        return problem.rule
    own = (one for one in problem.workloads if one.tolerance is not None and not one.hidden)
    return "; ".join((_of(problem.tolerance), *(f"{one.workload_id}: {_elements(one.tolerance or problem.tolerance)}" for one in own)))


def _of(tolerance: wire.Tolerance) -> str:
    budget = tolerance.budget_factor
    whole = (
        "" if budget is None else f", rms error against float64 at most {budget:g} times PyTorch's + {tolerance.budget_floor:g} * rms(ref)"
    )
    return f"{_elements(tolerance)}{whole}{', lower precision allowed' if tolerance.allow_lower_precision else ''}"


def _elements(tolerance: wire.Tolerance) -> str:
    return f"|out - ref| <= {tolerance.atol:g} + {tolerance.rtol:g} * |ref|"
