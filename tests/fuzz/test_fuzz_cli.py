"""The command line: the files that it reads, and all that a server may say to it, are shown or refused in a sentence."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console

from grader.api import statuses
from grader.artifacts import seal
from grader.cli import output, report, sources, submit
from grader.cli.exits import CommandFailed, exit_of_error
from grader.cli.progress import GradingStages, progress
from grader.config import Settings
from grader.errors import GraderError, ProblemInvalid
from grader.formats import native
from grader.problems import kept
from grader.v1 import submission_pb2
from grader.views import sanitize
from sandbox.protocol import wire
from tests.fuzz import values
from tests.fuzz.test_fuzz_problems import TOML_WORDS

SOLUTION = Path(__file__).parents[1] / "fixtures" / "flashinfer" / "flat" / "solutions" / "clipped_sum_cuda.json"
VECTOR_ADD = Path(__file__).parents[2] / "kernels_examples" / "vector_add"


def put(path: Path, content: str) -> None:
    path.write_bytes(content.encode("utf-8", "surrogatepass"))


@given(
    values.texts(),
    st.one_of(values.texts(), values.garbled((VECTOR_ADD / "problem.toml").read_text(), TOML_WORDS)),
    st.sampled_from((None, "p", "problems/p")),
)
@example("int a;", "a = " + "[" * 2000, None)
@example("int a;", "a = " + "1" * 5000, None)
def test_the_files_of_a_submission_are_read_or_refused(content: str, toml: str, problem: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="gc-") as place:
        put(Path(place) / "kernel.cu", content)
        put(Path(place) / "problem.toml", toml)
        try:
            handed = sources.read([Path(place) / "kernel.cu"], problem)
        except CommandFailed as failed:
            assert str(failed)
            return
        assert handed.problem_id and handed.sources[0].path == "kernel.cu"


@pytest.mark.parametrize("toml", ["a = " + "[" * 2000, "a = " + "1" * 5000], ids=["deep", "long"])
def test_a_problem_beside_that_can_not_be_read_is_refused(tmp_path: Path, toml: str) -> None:
    """Found: RecursionError, and ValueError of a number of 5000 digits."""
    put(tmp_path / "kernel.cu", "int a;")
    put(tmp_path / "problem.toml", toml)
    with pytest.raises(CommandFailed):
        sources.read([tmp_path / "kernel.cu"], None)


def solution_texts() -> st.SearchStrategy[str]:
    text = SOLUTION.read_text()
    changed = values.mutated(json.loads(text)).map(json.dumps)
    return st.one_of(changed, values.garbled(text, ("NaN", "1e999", "[" * 500, "\\ud800", '"', "{", "1" * 5000)), values.texts())


@given(solution_texts())
def test_a_solution_file_is_a_submission_or_a_misuse(content: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gs-") as place:
        path = Path(place) / "s.json"
        put(path, content)
        try:
            handed = sources.read([path], None)
        except CommandFailed as failed:
            assert str(failed) and exit_of_error(failed)
            return
        order = submit.SubmitOptions(files=(path,), problem=None, language="", entry="", device_kind="", mode="test")
        assert submit.build_submission(handed, order).SerializeToString()


@given(values.texts())
@example("x" * 300)
@example("a/" + "x" * 300)
@example("a\0b")
def test_any_name_of_a_problem_or_a_file_is_a_name_or_a_misuse(name: str) -> None:
    """As words of a command: no NUL is in them, but too long they may be."""
    try:
        submit.problem_at(name)
        sources.read([Path(name)], "p")
    except (CommandFailed, ProblemInvalid) as failed:
        assert str(failed) and exit_of_error(failed)


@given(values.texts(), st.integers(1, 200))
def test_any_text_is_shown_without_what_a_terminal_obeys(words: str, most: int) -> None:
    shown = sanitize.escape_unprintable(words, most_chars=most)
    assert all(one == "\n" or unicodedata.category(one) not in ("Cc", "Cf", "Cs") for one in shown)
    assert "\n" not in sanitize.one_line(words)
    shown.encode()


def messages() -> st.SearchStrategy[Any]:
    return values.proto_messages(submission_pb2.Submission)


@values.examples(10)
@given(messages(), st.booleans())
def test_any_submission_of_a_server_is_shown(message: Any, json_too: bool) -> None:
    """Whatever its numbers and texts are; a server may be newer than the command."""
    message.state = submission_pb2.SUBMISSION_STATE_SUCCEEDED if json_too else message.state
    out = io.StringIO()
    report.show(Console(file=out, width=80), message)
    assert all(unicodedata.category(one) not in ("Cc", "Cf", "Cs") or one == "\n" for one in out.getvalue())
    with contextlib.suppress(CommandFailed):  # a time that no calendar has
        output.print_json(message)


def test_a_detail_of_a_type_that_is_not_known_here_is_said_to_be_one() -> None:
    """Found: TypeError, of a server that is newer than the command."""
    message = submission_pb2.Submission()
    message.error.details.add().type_url = "type.googleapis.com/grader.v9.News"
    with pytest.raises(CommandFailed, match="JSON"):
        output.print_json(message)


@values.examples(10)
@given(st.lists(values.proto_messages(submission_pb2.SubmissionEvent), max_size=5))
def test_any_events_of_a_server_are_followed(events: list[Any]) -> None:
    line = GradingStages(0.0)
    for index, event in enumerate(events):
        with progress(json=True) as shown:
            shown.feed(event)
        line.feed(event, float(index))


@given(
    values.proto_messages(status_pb2.Status),
    st.lists(values.proto_messages(error_details_pb2.ErrorInfo), max_size=2),
    st.sampled_from(sorted(statuses._BY_REASON)),
)
def test_any_status_of_a_server_becomes_an_error(status: Any, infos: list[Any], reason: str) -> None:
    for info in infos:
        info.domain, info.reason = statuses.DOMAIN, reason
        info.metadata["limit"] = info.metadata.get("limit", "x")
        status.details.add().Pack(info)
    error = statuses.to_error(status)
    assert isinstance(error, GraderError) and isinstance(str(error), str) and exit_of_error(error)


def kept_texts() -> st.SearchStrategy[str]:
    data = json.loads(kept._adapter().dump_json(native.load(VECTOR_ADD)))
    whole = values.mutated(data).map(json.dumps)
    return st.one_of(whole, values.garbled(json.dumps(data), ("NaN", "[" * 300, "1" * 5000)), values.texts())


@given(kept_texts())
def test_a_kept_problem_is_read_or_refused(content: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gc-") as place:
        path = Path(place) / "p.json"
        put(path, content)
        try:
            problem = kept.read_kept(path)
        except ProblemInvalid as invalid:
            assert invalid.message
            return
        assert problem.problem_id is not None


@given(st.binary(max_size=200), st.integers(0, 60), st.binary(max_size=4))
def test_an_entry_of_the_cache_is_ours_or_not_sealed(noise: bytes, at: int, patch: bytes) -> None:
    for content in (noise, seal.MAGIC + noise, bytes(seal.SEAL_BYTES) + seal.MAGIC + noise):
        with pytest.raises(seal.NotSealed):
            seal.unsealed(content[:at] + patch + content[at:], "key", b"secret")


REJECTION = seal.sealed(
    "key", seal.Made(build=wire.Build(outcome=wire.BuildOutcome.REJECTED, log="error: no"), artifact=None, lasting=True), b"secret"
)


@given(st.integers(0, len(REJECTION)), st.integers(0, 8), st.binary(max_size=8))
@example(len(REJECTION), 0, b"artifact")
@example(0, 0, b"")
def test_a_rejection_of_the_cache_is_whole_or_not_sealed(at: int, length: int, patch: bytes) -> None:
    content = REJECTION[:at] + patch + REJECTION[at + length :]
    if content == REJECTION:
        assert seal.unsealed(content, "key", b"secret").artifact is None
        return
    with pytest.raises(seal.NotSealed):
        seal.unsealed(content, "key", b"secret")


@given(values.wire_messages(wire.Build), st.sampled_from((b"", b"artifact")), st.booleans())
def test_whatever_build_is_sealed_an_entry_says_one_thing(build: wire.Build, artifact: bytes, right: bool) -> None:
    if right:
        build = replace(build, artifact_digest=hashlib.sha256(artifact).hexdigest())
    header = json.dumps({"key": "key", "build": wire.as_json(build)}).encode()
    head = seal.MAGIC + len(header).to_bytes(seal.LENGTH_BYTES, "big") + header
    try:
        made = seal.unsealed(hmac.digest(b"secret", head, "sha256") + head + artifact, "key", b"secret")
    except seal.NotSealed as error:
        assert str(error)
        return
    assert made.lasting and (made.artifact is None) is (made.build.outcome is not wire.BuildOutcome.BUILT)
    assert seal.unsealed(seal.sealed("key", made, b"secret"), "key", b"secret") == made


@given(
    st.dictionaries(
        st.sampled_from(("listen", "state_dir", "cache_bytes", "problems", "device", "lanes", "drain_s", "lease_s", "x")),
        values.hostile_values(),
        max_size=3,
    )
)
def test_any_settings_are_taken_or_refused(given_: dict[str, Any]) -> None:
    try:
        settings = Settings(**given_)
    except ValidationError as error:
        assert all(one["loc"] for one in error.errors())
        return
    assert settings.loopback in (True, False)
