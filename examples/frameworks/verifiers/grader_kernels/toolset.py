"""A tool server, which runs next to a rollout: the model tries a kernel before it answers."""

import grader_scoring
import verifiers.v1 as vf


class GraderToolset(vf.Toolset[vf.ToolsetConfig]):
    """Tries kernels. What it says is for the model; the reward is of the answer alone."""

    TOOL_PREFIX = "grader"
    problem = ""

    async def setup_task(self, task: vf.TaskData) -> None:
        """Learn which problem the rollout is about: the model does not choose it."""
        self.problem = task.name or ""

    @vf.tool
    async def grade(self, kernel: str) -> str:
        """Grade a kernel, a code block as in the answer, and return the verdict with the reasons."""
        return (await grader_scoring.score(kernel, self.problem)).feedback


if __name__ == "__main__":
    GraderToolset.run()
