"""Kernels as their authors have them: each case of cases.toml gets its verdict, and the sentence that names the cause.

They are reductions of our own, of the mistakes and conventions that reviews found in the field.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from sandbox.protocol import wire
from tests.harness.kernel_words import problem_at, problem_path, words_of
from tests.local_grading import graded, local_fleet
from tests.run_files import artifact_cache, cache_directory

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "cases.toml").read_text("utf-8"))
KERNELS = [HERE / "kernels", HERE.parent / "honest" / "kernels", HERE.parents[1] / "kernels_examples" / "row_softmax"]
PROBLEMS = [HERE / "problems", HERE.parent / "honest" / "problems"]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fleet() -> AsyncIterator[LocalFleet]:
    """A judge for all tests of this module."""
    async with local_fleet("auto", hidden=(HERE, cache_directory()), cache=artifact_cache()) as started:
        yield started


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", CASES)
async def test_a_kernel_of_the_field_gets_its_verdict(fleet: LocalFleet, name: str) -> None:
    """With the words that name the cause, and without those that mislead."""
    case = CASES[name]
    path = next(directory / case["kernel"] for directory in KERNELS if (directory / case["kernel"]).exists())
    text = path.read_text("utf-8")
    for old, replacement in case.get("changes", []):
        assert old in text, old
        text = text.replace(old, replacement)
    problem = problem_at(problem_path(case.get("problem") or words_of(path)["problem"], *PROBLEMS))
    files = {path.name: text, **case.get("files", {})}
    report, _ = await graded(fleet, problem, files, mode=wire.Mode(case.get("mode", "test")), skip_sanitizer="mode" not in case)
    build, findings = report.build, report.profile.findings if report.profile else ()
    texts = " ".join((report.summary, *(build.remarks if build else ()), *map(str, findings)))
    texts_and_log = f"{texts}\n{build.log if build else ''}"
    assert f"{report.verdict.value} {report.reason}".startswith(case["verdict"]), texts_and_log
    assert all(words in texts_and_log for words in case.get("says", [])), texts_and_log
    assert not any(words in texts for words in case.get("never", [])), texts
