"""What only a problem's own code knows of its arguments, learned in a box.

It is shown, and decides which languages may be submitted. The judge learns it again, and goes by that.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from grader.admission.check_box import CheckBox
from grader.errors import JudgeBroken
from grader.model import Problem
from grader.views.sanitize import one_line
from sandbox.protocol import wire
from sandbox.protocol.signatures import C_TYPES

BUDGET_S, PATIENCE_S = 20.0, 120.0  # of one problem, a second on an idle machine; of all of them, for importing torch
TENSOR_LIMIT, RANK_LIMIT, SIZE_LIMIT, REASON_CHARS = 128, 8, 2**62, 300
FAILURE_LIMIT = 10  # boxes in a row of which none came to the end of one problem
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


def descriptions(content: bytes) -> dict[str, wire.Described]:
    """The descriptions in what a box has written, by the problems' digests. Lines that are none, or are not plain, are passed over."""
    return {one.digest: one for one in _messages(content) if isinstance(one, wire.Described) and is_sane(one)}


def is_sane(found: wire.Described) -> bool:
    """Whether every name is one for C, every dtype known, and every number within reason: it may be anything that a file's author wrote."""
    tensors = (*found.inputs, *found.outputs, *found.weights)
    names = [one.name for one in tensors]
    ranks = {one.name: len(one.shape) for one in (*found.inputs, *found.outputs)}
    return (
        0 < len(found.outputs) <= len(tensors) <= TENSOR_LIMIT
        and len(set(names)) == len(names)
        and all(NAME.fullmatch(name) for name in (*names, *found.axes))
        and set(names).isdisjoint(found.axes)
        and all(0 <= size < SIZE_LIMIT for size in found.axes.values())
        and all(one.dtype in C_TYPES and one.distribution == wire.Distribution() for one in tensors)
        and all(len(one.shape) <= RANK_LIMIT and all(axis in found.axes for axis in one.shape) for one in tensors)
        and all(
            len(strides) == ranks.get(name) and all(0 <= stride < SIZE_LIMIT for stride in strides)
            for name, strides in found.strides.items()
        )
        and found.obstacle == one_line(found.obstacle, most_chars=REASON_CHARS)
    )


async def describe(problems: Sequence[Problem], box: CheckBox, budget_s: float) -> dict[str, wire.Described]:
    """Learn the arguments of problems, by their digests, for about budget_s together. What could not be learned is missing: a problem that
    ends the process, or takes its time, is passed over. JudgeBroken where no box can be had, or none can run a problem."""
    found: dict[str, wire.Described] = {}
    waiting, left_s, failures = list(problems), budget_s, 0
    while waiting and left_s > 0 and failures < FAILURE_LIMIT:
        jobs = [
            wire.AdmissionJob(job_id=one.digest, problem=one.spec, budget_s=min(BUDGET_S, left_s), describe_only=True) for one in waiting
        ]
        report = await box.run(jobs, None, left_s + PATIENCE_S)
        messages = list(_messages(report.content))
        if (broken := next((one for one in messages if isinstance(one, wire.Broken) and not one.job_id), None)) is not None:
            raise JudgeBroken(one_line(broken.message, most_chars=REASON_CHARS))
        found |= descriptions(report.content)
        finished = {one.job_id for one in messages if isinstance(one, wire.Finished)}
        done = sum(one.digest in finished for one in waiting)
        waiting = waiting[done + 1 :]  # the one after those ended the process
        left_s -= report.ended.wall_ns / 1e9
        failures = 0 if done else failures + 1
    return found


def _messages(content: bytes) -> Iterator[object]:
    for line in content.splitlines():
        with contextlib.suppress(wire.WireError):
            yield wire.decode(line)
