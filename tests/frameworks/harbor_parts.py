"""For `harbor run` without Docker's compose plugin: an environment of bubblewrap, and an agent that answers by the list."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

sys.path.append(str(Path(__file__).parents[2] / "examples/frameworks"))
import scripted_model

_LINKS = [word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
_SYSTEM = [
    "--ro-bind",
    "/usr",
    "/usr",
    *_LINKS,
    "--tmpfs",
    "/tmp",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--unshare-all",
    "--die-with-parent",
]
_REWARDS = "mkdir -p /logs/verifier; echo 1.0 > /logs/verifier/reward.txt; echo '{\"reward\": 1.0}' > /logs/verifier/reward.json"


class BubblewrapEnvironment(BaseEnvironment):
    """A directory that commands see as /app, /logs, /tests and /solution, and nothing else of this machine but /usr."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._root = self.trial_paths.trial_dir / "root"

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities()

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        for name in ("app", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution"):
            (self._root / name).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self._root / target_path.lstrip("/"))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._root / target_dir.lstrip("/"), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._root / source_path.lstrip("/"), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._root / source_dir.lstrip("/"), target_dir, dirs_exist_ok=True)

    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None, timeout_sec: int | None = None, user: Any = None
    ) -> ExecResult:
        binds = [word for path in self._root.iterdir() for word in ("--bind", str(path), f"/{path.name}")]
        words = ["bwrap", *_SYSTEM, *binds, "--chdir", cwd or "/app", "sh", "-c", command]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=env or {})
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec or 60)
        return ExecResult(stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"), return_code=process.returncode or 0)


class ScriptedAgent(BaseAgent):
    """Writes the kernel of the list, and where that one is forged, rewards too."""

    @staticmethod
    def name() -> str:
        return "scripted"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: BaseEnvironment) -> None:
        pass

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        problem = re.findall(r"problems/(\w+)", instruction)[0]
        if kernel := scripted_model.kernel(problem):
            await environment.exec(f"printf %s {shlex.quote(kernel)} > /app/kernel.cu")
        if "verdict" in kernel:
            await environment.exec(_REWARDS)
