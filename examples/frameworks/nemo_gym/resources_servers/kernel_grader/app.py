"""NeMo Gym: a resources server that verifies answers with a grader.

python app.py --write-tasks tasks.jsonl    # a task for each problem of $GRADER_SERVER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grader_scoring
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)


class KernelGraderConfig(BaseResourcesServerConfig):
    """Configuration."""

    REVERIFY_MODE = ReverifyMode.STATELESS


class KernelRunRequest(BaseRunRequest):
    """A task. problem: its name."""

    problem: str


class KernelVerifyRequest(KernelRunRequest, BaseVerifyRequest):
    """A task with the model's answer."""


class KernelVerifyResponse(BaseVerifyResponse):
    """Reward with the verdict. submission: "" where the answer has no kernel."""

    problem: str
    verdict: str
    submission: str


class KernelGraderResourcesServer(SimpleResourcesServer):
    """Verifies with $GRADER_SERVER."""

    config: KernelGraderConfig

    async def verify(self, body: KernelVerifyRequest) -> KernelVerifyResponse:
        """Grade the answer. `Unscored` goes on: Gym answers 500, and the rollout has no reward, not even a masked one of 0."""
        messages = [item for item in body.response.output if item.type == "message"]
        texts = [part.text for message in messages for part in message.content if part.type == "output_text"]
        score = await grader_scoring.score("\n".join(texts), body.problem)
        return KernelVerifyResponse(**body.model_dump(), reward=score.reward, verdict=score.verdict, submission=score.name)


def write_tasks(path: Path) -> None:
    """Write a line for each problem."""
    lines = [
        json.dumps({"responses_create_params": {"input": [{"role": "user", "content": prompt}]}, "problem": problem})
        for problem, prompt in grader_scoring.prompts().items()
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write-tasks"]:
        write_tasks(Path(sys.argv[2]))
    else:
        KernelGraderResourcesServer.run_webserver()
