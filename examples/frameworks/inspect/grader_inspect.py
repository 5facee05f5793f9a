"""Inspect: a task of the grader's problems, and the scorer that any task may use."""

from __future__ import annotations

import grader_scoring
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

import grader


@scorer(metrics=[mean(), stderr()])
def kernel_reward() -> Scorer:
    """Grade the kernel in the completion; the target is the problem's name. A failure of the grader is unscored, which no metric counts."""

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        try:
            graded = await grader_scoring.score(answer, target.text)
        except grader.Unscored as error:
            return Score.unscored(reason="scoring_failed", answer=answer, explanation=str(error))
        metadata = {"verdict": graded.verdict, "submission": graded.name}
        return Score(value=graded.reward, answer=answer, explanation=graded.feedback, metadata=metadata)

    return score


@task
def kernels() -> Task:
    """Ask for a kernel for each problem of $GRADER_SERVER; `--sample-id vector_add` chooses."""
    samples = [Sample(input=prompt, target=problem, id=problem) for problem, prompt in grader_scoring.prompts().items()]
    return Task(dataset=MemoryDataset(samples, name="grader"), solver=generate(), scorer=kernel_reward())
