"""Grades submissions in this process, in boxes on the emulated device: one fleet for the tests of a module."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from grader.artifacts import ArtifactCache
from grader.dispatch.local_fleet import LocalFleet
from grader.intake.gate import detect
from grader.isolation import NoIsolationWorks
from grader.isolation.select import choose
from grader.isolation.settings import BoxSettings
from grader.model import NewSubmission, Problem, Report, SourceFile
from grader.verdict.fold import fold
from sandbox.protocol import wire
from tests import fakes
from tests.requirements import absent, skip_without_extensions


@asynccontextmanager
async def local_fleet(name: str, *, hidden: tuple[Path, ...] = (), cache: ArtifactCache | None = None) -> AsyncIterator[LocalFleet]:
    """Start a fleet with one judge on the isolation of this name; skip the test where it does not work."""
    with tempfile.TemporaryDirectory(prefix="grader-tests-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o711)
        settings = BoxSettings(state_id=f"tests{secrets.token_hex(4)}", runtime_dir=Path(place), hidden_paths=hidden)
        try:
            isolation, _ = await choose(name, settings)
        except NoIsolationWorks as error:
            absent(name, str(error))
        async with LocalFleet(isolation=isolation, settings=settings, cache=cache) as fleet:
            yield fleet
        await isolation.close()


async def graded(
    fleet: LocalFleet, problem: Problem, files: Mapping[str, str], *, mode: wire.Mode = wire.Mode.TEST, skip_sanitizer: bool = True
) -> tuple[Report, list[wire.Fact]]:
    """The report and the facts of a submission of these files, by path, in the language that is detected."""
    sources = tuple(SourceFile(path=path, content=content) for path, content in files.items())
    language = detect(sources)
    assert language in problem.languages
    draft = NewSubmission(problem_id=problem.problem_id, language=language, sources=sources, mode=mode, skip_sanitizer=skip_sanitizer)
    facts = [
        fact async for fact in fleet.grade(fakes.lease(draft, problem, submission_id=secrets.token_hex(8), problem_digest=problem.digest))
    ]
    report = fold(facts)
    skip_without_extensions("" if report.build is None else report.build.log)
    return report, facts
