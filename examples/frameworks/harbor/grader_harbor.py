"""Harbor: task folders for the grader's problems, and the verifier, which runs next to Harbor and not where the agent ran.

grader-harbor-tasks tasks          # a folder for each problem of $GRADER_SERVER, and tasks/job.json, which names the verifier
harbor run -c tasks/job.json -p tasks -a AGENT -m MODEL
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import grader_harbor_mean
import grader_scoring
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier

FILES = ("/app/kernel.cu", "/app/kernel.py")
SIZE_LIMIT = 1_100_000  # a little more than the server takes, so that it refuses what is longer
# Read by a command and not copied: a link would be followed on this side.
_READ = f"for file in {' '.join(FILES)}; do if [ -f $file ]; then echo $file; head -c {SIZE_LIMIT} $file; exit 0; fi; done; echo none"

_TASK = """schema_version = "1.4"

[task]
name = "kernel-grader/{problem}"
description = "A CUDA kernel for problems/{problem}"

[metadata]
problem = "{problem}"

[verifier]
timeout_sec = 900.0

[agent]
timeout_sec = 1800.0

[environment]
build_timeout_sec = 600.0
"""
_DOCKERFILE = "FROM debian:12-slim\nWORKDIR /app\n"
_HOW_TO_ANSWER = "Write one file of CUDA C++ to /app/kernel.cu, or of Python (Triton, Numba or PyTorch with inline CUDA) to /app/kernel.py."
# Harbor asks for a test script. Without the verifier there is no reward, and so no way to one from inside.
_TEST = "#!/bin/sh\necho 'run with: harbor run --verifier grader_harbor:GraderVerifier' >&2\nexit 1\n"


class GraderVerifier(BaseVerifier):
    """Takes the kernel out of the agent's environment and grades it. What lies in /logs/verifier does not count.

    `Unscored` goes on: Harbor records the exception, and the trial has no reward.
    """

    async def verify(self) -> VerifierResult:
        """Return the reward."""
        path, _, source = (await self._listing()).partition("\n")
        kernel = {Path(path).name: source} if path in FILES else {}
        score = await grader_scoring.score_files(kernel, self.task.config.metadata["problem"])
        self.trial_paths.verifier_dir.mkdir(parents=True, exist_ok=True)
        self.trial_paths.test_stdout_path.write_text(f"{score.name}\n{score.feedback}\n", "utf-8")
        return VerifierResult(rewards={"reward": score.reward})

    async def _listing(self) -> str:
        """Return the path and the text of the kernel; neither where the command fails in an environment that is there: an agent can break
        its shell, and would choose which of its trials count. A copy into it, which needs no shell in Docker's, shows that it is there.
        """
        try:
            listing = await self.environment.exec(_READ, timeout_sec=60)
            if listing.return_code == 0:
                return listing.stdout or ""
            error = listing.stderr or listing.stdout or f"it ended with {listing.return_code}"
        except Exception as failure:  # noqa: BLE001  # each kind of environment has its own, for a timeout too
            error = repr(failure)
        self.logger.warning("the environment did not say what the agent left: %s", error[:1000])
        await self.environment.upload_file(__file__, f"/{uuid.uuid4().hex}")
        return ""


def write_tasks() -> None:
    """Write the folders, and a configuration for jobs that run them."""
    directory = Path(sys.argv[1])
    for problem, prompt in grader_scoring.prompts(_HOW_TO_ANSWER).items():
        texts = {
            "task.toml": _TASK.format(problem=problem),
            "instruction.md": f"{prompt}\n",
            "environment/Dockerfile": _DOCKERFILE,
            "tests/test.sh": _TEST,
        }
        for name, text in texts.items():
            path = directory / problem / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    job = {
        "verifier": {"import_path": "grader_harbor:GraderVerifier"},
        "metrics": [{"type": "uv-script", "kwargs": {"script_path": grader_harbor_mean.__file__}}],
    }
    (directory / "job.json").write_text(json.dumps(job, indent=2) + "\n", "utf-8")
