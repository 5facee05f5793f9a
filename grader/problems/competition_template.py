"""Writes a new `competition.toml` with a comment on each key, for problems that a server has.  It loads as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from grader.formats import formats
from grader.model import Problem
from grader.problems.competition_file import Secret
from grader.problems.competition_store import SecretInvalid, first_shown, secret_workloads
from sandbox.protocol.devices import DeviceKind

_DAYS_BEFORE, _DAYS_LONG = 1, 2
_HEAD = """\
# A competition. Every key is described in docs/competitions.md; `grader-cli competitions check {path}` finds mistakes.
# This file holds secrets: keep it readable for its owner only (chmod 600).

name = {name}  # what `--competition` takes: lower case letters, digits, _ and -
title = {title}  # one line, for lists and pages
statement = ""  # your rules, for people

# What is competed on. `grader-cli problems list` has the ids.
problems = {problems}

# "cuda", "cuda:H200" (a part of the GPU's name) or "emulated" (practice, not official). The first is the default.
devices = ["cuda"]

# Times without quotes, with an offset such as +02:00, or Z for UTC. At `end` it is over; from `freeze` to `end` users see a frozen board.
start = {start}
freeze = {freeze}
end = {end}

hourly_limit = 10  # submissions of each user; 0: only the server's own limit
daily_limit = 60

score = "speedup"  # over PyTorch, larger is better; or "time", smaller is better
baseline = "eager"  # or "compile", "max-autotune"
tie_rule = "share"  # entries whose intervals overlap share a rank; "earliest" lists the earlier one first
visibility = "private"  # "after_end": everybody sees all sources and reports after the end
processes = 3  # fresh processes for each submission

# Draws the secret sizes below. It is random: do not change it during the competition, and publish it afterwards if you like.
secret_seed = "{seed}"
"""
_SECRET = """
# A secret workload: users see its outcome only. The seed draws a size from `low` to `high`; choose a range over which kernels rank alike.
[[secret]]
problem = {problem}
device = "cuda"
axes = {{ {axes} }}
"""


def template(name: str, problems: Sequence[Problem], now: datetime, seed: str, path: Path) -> str:
    """The text of a new file."""
    start = (now + timedelta(days=_DAYS_BEFORE)).replace(hour=18, minute=0, second=0, microsecond=0)
    end = start + timedelta(days=_DAYS_LONG)
    text = _HEAD.format(
        path=path,
        name=_quoted(name),
        title=_quoted(name[:1].upper() + name[1:]),
        problems=f"[{', '.join(_quoted(one.problem_id) for one in problems)}]",
        start=start.isoformat(),
        freeze=(end - timedelta(hours=1)).isoformat(),
        end=end.isoformat(),
        seed=seed,
    )
    return text + "".join(_secret(one, seed) for one in problems)


def _secret(problem: Problem, seed: str) -> str:
    """A secret workload like the problem's first public one on a GPU; "" where its format takes none."""
    like = first_shown(problem, DeviceKind.CUDA)
    if like is None or not like.axes or not getattr(formats()[problem.spec.format], "SECRET_SIZES", False):
        return ""
    axes = {axis: {"low": max(size // 2, 1), "high": max(size, 1)} for axis, size in like.axes.items()}
    try:
        secret_workloads(
            Secret.model_validate({"problem": problem.problem_id, "axes": axes, "device": DeviceKind.CUDA}), problem, "", 0, seed
        )
    except SecretInvalid:
        return ""
    shown = ", ".join(f"{axis} = {{ low = {one['low']}, high = {one['high']} }}" for axis, one in axes.items())
    return _SECRET.format(problem=_quoted(problem.problem_id), axes=shown)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
