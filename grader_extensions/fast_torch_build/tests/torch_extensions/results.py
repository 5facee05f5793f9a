"""Builds extensions of the corpus with the builder and with torch's own headers, and calls all that they have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader_extensions.fast_torch_build.tests.torch_extensions import corpus
from grader_extensions.fast_torch_build.tests.torch_extensions.builds import (
    ROOT,
    TIMEOUT_S,
    Built,
    build,
    build_together,
    module_of,
    processors,
)
from grader_extensions.fast_torch_build.tests.torch_extensions.corpus import Extension


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Outcomes of the extensions, by name. outcomes: of the builder's artifacts; full: the same calls with torch's own headers."""

    extensions: dict[str, Extension]
    built: dict[str, Built]
    outcomes: dict[str, Any]
    full: dict[str, Any]

    def wrong_build(self, name: str) -> str:
        """Return the fault of the build, or "". Light headers are taken wherever they carry the source; else torch's own, with a reason."""
        built, expected = self.built[name], self.extensions[name].headers
        if built.artifact is None or built.note is None:
            return f"{name} was not built:\n{built.log}"
        if (built.note.headers, bool(built.note.fallback)) != (expected, expected == "full"):
            return f"{name} was built with {built.note.headers} headers: {built.note.fallback}"
        return ""

    def wrong_calls(self, name: str) -> list[str]:
        """The calls that do not end as the source says. A corpus that raises by mistake would agree about the mistake."""
        outcome = self.outcomes.get(name, {})
        if "outcomes" not in outcome:
            return [f"{name}: {outcome}"]
        ends = [(call, outcome["outcomes"][call.text]) for call in self.extensions[name].calls]
        return [f"{name}: {call.text}: {end.get('message')}" for call, end in ends if ("raised" in end) != call.raises]

    def difference(self, name: str) -> str:
        """Return the difference to torch's own headers, or "": results, dtypes, strides, exceptions with their words, or the arguments."""
        ours, full = self.outcomes.get(name), self.full.get(name)
        if full is None or "outcomes" not in full:
            return f"{name} with torch's own headers: {full}"
        return "" if ours == full else f"{name}: {ours} with light headers, {full} with torch's own"


def results_of(names: Sequence[str], place: Path) -> Results:
    """Build these and call them. Those that light headers carry are built with torch's own too: together, so that those are read once."""
    extensions = {name: corpus.load(name) for name in names}
    light = [extension for extension in extensions.values() if extension.headers == "light"]
    with ThreadPoolExecutor(processors()) as pool:
        together = pool.submit(build_together, light, place / "full") if light else None  # the longest first
        waiting = {name: pool.submit(build, extension, place / name) for name, extension in extensions.items()}
        built = {name: future.result() for name, future in waiting.items()}
        full = [(extension.name, together.result(), module_of(extension)) for extension in light] if together else []
    ours = [(name, entry.artifact, "kernel") for name, entry in built.items() if entry.artifact is not None]
    return Results(extensions=extensions, built=built, outcomes=called(ours, place / "ours"), full=called(full, place / "theirs"))


def called(plan: Iterable[tuple[str, Path, str]], out: Path, device: str = "cpu") -> dict[str, Any]:
    """Return what the calls came to, in another process: `calls.py`."""
    lines = json.dumps([(name, str(artifact), module) for name, artifact, module in plan])
    out.mkdir()
    (out / "plan").write_text(lines)
    if lines == "[]":
        return {}
    environment = {"PATH": "/usr/bin:/bin", "GRADER_EMULATED_THREADS": "1", "OMP_NUM_THREADS": "1"} if device == "cpu" else None
    command = [sys.executable, "-m", "grader_extensions.fast_torch_build.tests.torch_extensions.calls", str(out / "plan"), str(out), device]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    # Some messages name the file that registered an operator.
    return {path.stem: json.loads(path.read_text().replace(str(out.parent), "")) for path in out.glob("*.json")}
