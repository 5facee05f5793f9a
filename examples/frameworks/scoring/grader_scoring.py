"""Scores a model's answer to a problem: one function for every framework.

A fault of the kernel is a score. A failure of the grader never is: it raises `grader.Unscored`, and each adapter hands that on as what its
framework calls unscored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import grader
from grader.v1 import problem_pb2

NOT_SUBMITTED = "NOT_SUBMITTED"
IN_A_BLOCK = "Answer with one file of CUDA C++, in a code block that begins with ```cuda."
TIMEOUT_S = 600.0
_BLOCK = re.compile(r"^```([\w+-]*+)[^\n]*+\n(.*?)^```", re.DOTALL | re.MULTILINE)  # linear: what `*+` takes is not given back
_PYTHON = ("python", "py", "triton")


@dataclass(frozen=True)
class Score:
    """Reward of an answer, from 0 to 1. verdict: as the API names it, or NOT_SUBMITTED. feedback: for the model, which may see all of it.
    name: of the submission; "" where there was none."""

    reward: float
    verdict: str
    feedback: str
    name: str = ""


def files(answer: str) -> Mapping[str, str]:
    """Return the last complete code block of an answer, by the name of the file that it is; empty where there is none.

    By its name, and not as a bare text: a kernel that a model wrote must never be taken for a path.
    """
    blocks = _BLOCK.findall(answer)
    if not blocks or not blocks[-1][1].strip():
        return {}
    language, source = blocks[-1]
    return {"kernel.py" if language.lower() in _PYTHON else "kernel.cu": source}


async def score(answer: str, problem: str) -> Score:
    """Grade the kernel in an answer."""
    return await score_files(files(answer), problem)


async def score_files(kernel: Mapping[str, str], problem: str) -> Score:
    """Grade a kernel. $GRADER_SERVER, $GRADER_KEY, $GRADER_MODE (test) and $GRADER_TIMEOUT_S (600) say where and how."""
    if not kernel:
        return Score(0.0, NOT_SUBMITTED, "The answer has no code block with a kernel.")
    mode, timeout_s = os.environ.get("GRADER_MODE", "test"), float(os.environ.get("GRADER_TIMEOUT_S", TIMEOUT_S))
    try:
        result = await grader.agrade(kernel, problem, mode=mode, timeout_s=timeout_s)
    except grader.KernelInvalid as error:  # the model's fault: were it unscored, a model could choose to be
        return Score(0.0, NOT_SUBMITTED, str(error))
    # Without times a right kernel is all that can be asked for.
    reward = result.reward(right=1.0) if mode == "test" else result.reward()
    return Score(reward, result.verdict, str(result), result.name)


def prompts(how_to_answer: str = IN_A_BLOCK) -> dict[str, str]:
    """Return the task for a model, by problem: of each problem of $GRADER_SERVER what every submitter sees."""
    with grader.SyncGraderClient(os.environ["GRADER_SERVER"], key=os.environ.get("GRADER_KEY", "")) as client:
        page = client.list_problems()
        problems = list(page.problems)
        while page.next_page_token:
            page = client.list_problems(page_token=page.next_page_token)
            problems += page.problems
    return {problem.name.removeprefix("problems/"): prompt(problem, how_to_answer) for problem in problems}


def prompt(problem: problem_pb2.Problem, how_to_answer: str = IN_A_BLOCK) -> str:
    """Return the task for a model."""
    tolerance = problem.tolerance
    sizes = "; ".join(", ".join(f"{axis} = {workload.axes[axis]}" for axis in problem.axes) for workload in problem.workloads)
    parts = [
        f"Write a CUDA kernel for `{problem.name}`: {problem.title}.",
        problem.statement.strip(),
        f"Define this function, and launch on the stream that it is given:\n\n    {problem.cuda_signature}",
        f"Sizes: {sizes}; and {problem.hidden_workload_count} that are not shown. "
        f"Right is |out - expected| <= {tolerance.atol:g} + {tolerance.rtol:g} * |expected|; integers are exact.",
        how_to_answer,
    ]
    return "\n\n".join(part for part in parts if part)
