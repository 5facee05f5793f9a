"""OpenEnv: an environment whose step is a kernel, and its server.

    uvicorn grader_openenv:app --port 8000

A failure of the grader is raised: the server answers with an error, and `step` of the client raises RuntimeError. An observation with the
reward None would say the same, but clients sum up `reward or 0.0`.
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any
from uuid import uuid4

import grader_scoring
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

SESSIONS = 64
prompts = cache(grader_scoring.prompts)


class KernelAction(Action):
    """An answer."""

    answer: str = Field(description="Text whose last code block is the kernel")


class KernelObservation(Observation):
    """The task, and what the grader said of the last kernel. Its reward is None after reset alone."""

    prompt: str = ""
    verdict: str = ""
    feedback: str = ""
    submission: str = ""


class KernelState(State):
    """State of an episode."""

    problem: str = ""


class KernelEnvironment(Environment[KernelAction, KernelObservation, KernelState]):
    """A problem, until a kernel is accepted. `reset(problem=NAME)`, or `reset(split="problems", index=N)`; the first without either."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = KernelState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, problem: str = "", split: str = "", index: int = 0, **_: Any
    ) -> KernelObservation:
        """Begin with a problem."""
        name = problem or list(prompts())[index]
        self._state = KernelState(episode_id=episode_id or str(uuid4()), problem=name)
        return KernelObservation(prompt=prompts()[name])

    def step(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        """Refuse: `step_async` is what the server calls."""
        raise NotImplementedError

    async def step_async(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        """Grade a kernel. After an error the same step may be tried again."""
        if not self._state.problem:
            raise RuntimeError("no problem is chosen; call reset first")
        score = await grader_scoring.score(action.answer, self._state.problem)
        self._state.step_count += 1
        return KernelObservation(
            prompt=prompts()[self._state.problem],
            verdict=score.verdict,
            feedback=score.feedback,
            submission=score.name,
            reward=score.reward,
            done=score.verdict == "ACCEPTED",
        )

    @property
    def state(self) -> KernelState:
        """Return the episode's."""
        return self._state

    def list_splits(self) -> list[str]:
        """Return the one split."""
        return ["problems"]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return all problems."""
        return [{"id": name, "index": index} for index, name in enumerate(prompts())]

    def num_tasks(self, split: str) -> int:
        """Return how many there are."""
        return len(prompts())

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one of them."""
        return self.list_tasks(split)[index]


app = create_app(
    KernelEnvironment, KernelAction, KernelObservation, env_name="kernel_grader", state_cls=KernelState, max_concurrent_envs=SESSIONS
)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    uvicorn.run(app, host=options.host, port=options.port)


if __name__ == "__main__":
    main()
