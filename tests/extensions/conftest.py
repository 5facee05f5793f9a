"""Builds the corpus once, or the part that is asked for: with the builder, and with torch's own headers; then calls all of it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.extensions import corpus
from tests.extensions.builds import ROOT, TIMEOUT_S, Built, build, build_together, module_of, processors
from tests.extensions.corpus import Extension


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What became of the extensions, by name. outcomes: of the builder's artifacts; full: the same calls with torch's own headers."""

    extensions: dict[str, Extension]
    built: dict[str, Built]
    outcomes: dict[str, Any]
    full: dict[str, Any]

    def agree(self, name: str) -> bool:
        """Whether light headers built it, and no bit differs."""
        note = self.built[name].note
        return note is not None and note.headers == "light" and self.outcomes[name] == self.full[name] and "outcomes" in self.full[name]


@pytest.fixture(scope="session")
def built_corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Corpus:
    """What the session's tests ask for, built and called; minutes. A test that names none asks for everything."""
    start = time.monotonic()
    place = tmp_path_factory.mktemp("extensions")
    wanted = {
        item.callspec.params.get("name", "") if hasattr(item, "callspec") else ""
        for item in request.session.items
        if isinstance(item, pytest.Function) and "built_corpus" in item.fixturenames
    }
    extensions = {name: corpus.load(name) for name in corpus.names() if name in wanted or "" in wanted}
    light = [extension for extension in extensions.values() if extension.headers == "light"]
    with ThreadPoolExecutor(processors()) as pool:
        # The longest first: those with torch's own headers.
        parts = [light[number :: processors()] for number in range(processors())]
        together = [pool.submit(build_together, part, place / f"full{number}") for number, part in enumerate(parts)]
        order = sorted(extensions.values(), key=lambda extension: extension.headers)
        waiting = {extension.name: pool.submit(build, extension, _made(place / extension.name)) for extension in order}
        full = [(one.name, future.result(), module_of(one)) for part, future in zip(parts, together, strict=True) for one in part]
        built = {name: future.result() for name, future in waiting.items()}
    ours = [(name, one.artifact, "kernel") for name, one in built.items() if one.artifact is not None]
    found = Corpus(extensions=extensions, built=built, outcomes=_called(ours, place / "ours"), full=_called(full, place / "theirs"))
    fallen = len(extensions) - len(light)
    say(f"\n{len(light)} extensions in both ways and {fallen} that fall back: {time.monotonic() - start:.0f} s")
    return found


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print for the person who waits, captured output or not."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line)

    return say


def _called(plan: Iterable[tuple[str, Path, str]], out: Path) -> dict[str, Any]:
    """What the calls came to, in another process: `calls.py`."""
    out.mkdir()
    (out / "plan").write_text(json.dumps([(name, str(artifact), module) for name, artifact, module in plan]))
    environment = {"PATH": "/usr/bin:/bin", "GRADER_EMULATED_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.extensions.calls", str(out / "plan"), str(out)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    return {path.stem: json.loads(path.read_text()) for path in out.glob("*.json")}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
