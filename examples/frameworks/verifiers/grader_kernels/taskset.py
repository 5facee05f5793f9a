"""The taskset: a task for each problem of $GRADER_SERVER, scored by the kernel in the last message."""

from collections.abc import Iterable

import grader_scoring
import verifiers.v1 as vf

from grader_kernels.toolset import GraderToolset


class GraderTaskConfig(vf.TaskConfig):
    """with_tool: whether the model may try kernels before it answers."""

    with_tool: bool = True
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class GraderTask(vf.Task[vf.TaskData, vf.State, GraderTaskConfig]):
    """A problem."""

    @classmethod
    def toolsets(cls, config: GraderTaskConfig) -> list[vf.Toolset]:
        """Return the tool to try kernels with, unless it is off."""
        return [GraderToolset(config.tools)] if config.with_tool else []

    @vf.reward
    async def kernel_reward(self, trace: vf.Trace) -> float:
        """Grade the answer. `Unscored` goes on: verifiers records a TaskError and leaves the reward None; `--resume` runs it again."""
        score = await grader_scoring.score(trace.last_reply, self.data.name or "")
        trace.info |= {"verdict": score.verdict, "submission": score.name}
        return score.reward


class GraderTasksetConfig(vf.TasksetConfig):
    """Configuration: that of its tasks."""

    task: GraderTaskConfig = GraderTaskConfig()


class GraderTaskset(vf.Taskset[GraderTask, GraderTasksetConfig]):
    """The problems of a grader."""

    def load(self) -> Iterable[GraderTask]:
        """Return a task for each."""
        tasks = [vf.TaskData(name=problem, prompt=prompt) for problem, prompt in grader_scoring.prompts().items()]
        return [GraderTask(task, self.config.task) for task in tasks]
