"""Builds kernels with the builder's own program, outside of a box, for processes of these tools that load them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sandbox.protocol import wire

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300.0
AT_A_TIME = 4


class NotBuilt(Exception):
    """A kernel of these tools did not build."""

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"{name} did not build; the end of the log:\n{log[-2000:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An artifact of ours."""

    artifact: Path
    seconds: float


def build(name: str, source: str, language: str, place: Path, device_kind: str, architecture: str = "") -> Built:
    """Build one source into an empty directory below place."""
    return build_files(name, {"kernel.cu": source}, language, place, device_kind, architecture)


def build_files(name: str, files: Mapping[str, str], language: str, place: Path, device_kind: str, architecture: str = "") -> Built:
    """Build a submission's files, by their paths, into an empty directory below place."""
    begun = time.monotonic()
    src, out = place / name / "src", place / name / "out"
    (src / "files").mkdir(parents=True)
    out.mkdir()
    for path, content in files.items():
        (src / "files" / path).write_text(content, "utf-8")
    entry = "forward" if language == "torch_extension" else "solve"
    job = wire.BuildJob(language=language, entry=entry, device_kind=device_kind, sources=tuple(files), architecture=architecture)
    (src / "job.json").write_bytes(wire.encode(job))
    command = [sys.executable, "-m", "sandbox.builder.build", str(src), str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(), capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S
    )
    artifact = out / "artifact"
    if not artifact.exists():
        raise NotBuilt(name, done.stdout + done.stderr)
    return Built(artifact=artifact, seconds=time.monotonic() - begun)


def _environment() -> dict[str, str]:
    """Ours, with the toolkit's programs on the PATH, as in a build box."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{toolkit}"}


def build_all(sources: Mapping[str, tuple[str, str]], place: Path, device_kind: str) -> dict[str, Built]:
    """Build (source, language) by name, some at a time."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        tasks = {name: pool.submit(build, name, source, language, place, device_kind) for name, (source, language) in sources.items()}
        return {name: task.result() for name, task in tasks.items()}
