"""Secret workloads: what a competition draws from its file, and the problem that it grades by.

No message of this module quotes a size, a seed or a secret's id.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, replace

from grader.formats import formats
from grader.formats.arithmetic import ExpressionInvalid, evaluate
from grader.model import Problem
from grader_extensions.competitions.competition_file import Secret
from grader_extensions.competitions.model import Competition
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind


def problem_for(competition: Competition, problem: Problem) -> Problem:
    """The problem as this competition grades it: with its secret workloads, hidden, and its ranking.

    Its digest is keyed by the secret seed: digests are shown, and from a plain one sizes could be found by trying.
    """
    secret = competition.secret_workloads.get(problem.problem_id, ())
    decides = [problem.digest, competition.competition_id, asdict(competition.ranking), [asdict(workload) for workload in secret]]
    digest = hmac.new(competition.secret_seed.encode(), json.dumps(decides, sort_keys=True).encode(), hashlib.sha256).hexdigest()
    spec = replace(problem.spec, workloads=(*problem.spec.workloads, *secret), digest=digest)
    return replace(problem, spec=spec, ranking=competition.ranking, competition_id=competition.competition_id)


class SecretInvalid(ValueError):
    """Mistake in a key of a `[[secret]]`. Never quotes its values."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def secret_workloads(secret: Secret, problem: Problem, place: str, before: int, seed: str) -> list[wire.Workload]:
    """The workloads that one `[[secret]]` stands for. Whatever it does not say is as in the workload `like`, the first that is shown."""
    like = problem.first_shown(secret.device)
    if like is None:
        raise SecretInvalid("problem", f"{problem.problem_id!r} shows no workload that this one could be like; add one")
    if not getattr(formats().get(problem.spec.format), "SECRET_SIZES", False) or not like.axes:
        raise SecretInvalid(
            "problem", f"{problem.problem_id!r} is of the format {problem.spec.format}, which takes no other sizes; leave this out"
        )
    if set(secret.axes) != set(like.axes):
        raise SecretInvalid("axes", f"must give exactly the axes {sorted(like.axes)}")
    if secret.device is None and (differs := _differs_by_device(problem)):
        text = f"is left out, and the {differs} of {problem.problem_id!r} differs between devices"
        kinds = " or ".join(f'"{kind}"' for kind in DeviceKind)
        raise SecretInvalid("device", f"{text}; write device = {kinds}, and a [[secret]] for each that is competed on")
    return [_workload(secret, problem, like, f"{place}/{number}", before + number + 1, seed) for number in range(secret.count)]


def _differs_by_device(problem: Problem) -> str:
    """Return what a secret without a device would have from the wrong one; "" where the first workloads of the devices agree."""
    firsts = [workload for kind in DeviceKind if (workload := problem.first_shown(kind)) is not None]
    if any((workload.tolerance or problem.spec.tolerance) != (firsts[0].tolerance or problem.spec.tolerance) for workload in firsts):
        return "tolerance"
    return "distribution of inputs" if any(workload.distributions != firsts[0].distributions for workload in firsts) else ""


def _workload(secret: Secret, problem: Problem, like: wire.Workload, place: str, number: int, seed: str) -> wire.Workload:
    axes = {name: size if isinstance(size, int) else size.drawn(seed, f"{place}/{name}") for name, size in secret.axes.items()}
    arguments = like.arguments
    if arguments:  # of reference_kernels: its generator takes the sizes from here
        case = json.loads(arguments)["case"]
        arguments = json.dumps({"case": {**case, **axes}})
    workload_ids = {workload.workload_id for workload in problem.spec.workloads}
    return replace(
        like,
        workload_id=next(name for name in (f"secret-{number}", f"secret-of-competition-{number}") if name not in workload_ids),
        axes=axes,
        hidden=True,
        arguments=arguments,
        device_kind=secret.device or "",
        moved_bytes=_amount("moved_bytes", secret.moved_bytes if secret.moved_bytes is not None else problem.moved_bytes, axes),
        flops=_amount("flops", secret.flops if secret.flops is not None else problem.flops, axes),
    )


def _amount(key: str, expression: int | str, axes: dict[str, int]) -> int | None:
    if isinstance(expression, int):
        return expression
    try:
        return evaluate(expression, axes) if expression else None
    except ExpressionInvalid:  # its message quotes the axes
        text = "has no value at these axes; write axes, whole numbers, + - * // % ** and parentheses, and keep it under 2 ** 63"
        raise SecretInvalid(key, text) from None
