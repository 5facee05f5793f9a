"""The gate: every check that a submission passes before it is stored or run, in their order.  No clock, no network.

A competition first says what it takes; then fields and files are checked, all violations at once, each naming the field and what to do;
then the device, and last what the mode of a package asks for. The ledger applies the policy that comes out of it in the transaction that
stores the submission: quotas, bans, and the time.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import cast

from grader import devices, extensions
from grader.api.conversion import from_enum
from grader.api.resource_names import PROBLEMS, SUBMISSIONS, resource_id, violation
from grader.config import Settings
from grader.errors import FieldViolation, InvalidSubmission, ModeNotInstalled, NoSuchDevice, SettingsInvalid
from grader.extensions import CORE_MODES, NoCompetitions, SubmitPolicy
from grader.model import SOURCE_LIMIT_BYTES, NewSubmission, Problem, SourceFile
from grader.problems.store import Problems
from grader.rules.quotas import AdmissionPolicy, Quota
from grader.v1 import grader_service_pb2, submission_pb2
from sandbox.protocol import wire
from sandbox.protocol.languages import LanguageInfo, languages
from sandbox.protocol.signatures import declaration, entry_in
from sandbox.protocol.source_tokens import COMMENT, C, tokens

SOURCE_COUNT_LIMIT = 64
PATH_LIMIT_BYTES = 200
ENTRY_LIMIT_CHARS = 256
PRECISION_LEAST, PRECISION_MOST = 0.001, 0.2
MEASURE_LEAST_S, MEASURE_MOST_S = 0.1, 30.0
REUSED_MODES = frozenset({wire.Mode.TEST, wire.Mode.BENCHMARK})
_TIMED = {"precision": (wire.Mode.BENCHMARK, wire.Mode.SWEEP), "measure_duration": (wire.Mode.BENCHMARK,)}


class _Violations(list[FieldViolation]):
    def add(self, field: str, text: str) -> None:
        self.append(FieldViolation(field, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A request that may be stored, under this policy."""

    submission: NewSubmission
    problem: Problem
    request_id: str
    allow_cached: bool = False
    batch: bool = False
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionGate:
    """Problems that submissions are for, the terms of competitions, and the server's own quotas and limit for each user's queue."""

    problems: Problems
    policy: SubmitPolicy
    quotas: Sequence[Quota] = ()
    user_queue_limit: int | None = None

    def check(self, request: grader_service_pb2.SubmitRequest, device_kinds: Sequence[str]) -> Accepted:
        """Return what may be stored. Raises InvalidSubmission, NoSuchDevice, ProblemNotFound, and what the terms are refused by."""
        message = request.submission
        if not message.competition:
            accepted = check_submission(request, self.problems.get, device_kinds)
            try:
                mode = extensions.mode_of(accepted.submission.mode)
            except ModeNotInstalled as error:
                raise InvalidSubmission([FieldViolation("mode", error.detail)]) from None
            problem = accepted.problem if mode is None else mode.plan(message, accepted.problem, device_kinds)
            admission = AdmissionPolicy(quotas=tuple(self.quotas), user_queue_limit=self.user_queue_limit)
            return replace(accepted, problem=problem, policy=admission)
        terms = self.policy.terms(request, device_kinds)
        accepted = check_submission(request, terms.problem, device_kinds)
        if accepted.submission.mode not in extensions.CORE_MODES:
            # What others find comes from processes that begin after secret workloads were run, and could carry what those left behind.
            text = f"a competition takes no MODE_{accepted.submission.mode.name}; leave `competition` out to run it on the public workloads"
            raise InvalidSubmission([FieldViolation("mode", text)])
        terms.check(accepted.submission, accepted.problem)
        submission = replace(accepted.submission, device_kind=terms.device_kind, competition_id=terms.competition_id)
        quotas = (*terms.quotas, *self.quotas)
        admission = AdmissionPolicy(admit=terms.admit, quotas=quotas, user_queue_limit=self.user_queue_limit)
        return replace(accepted, submission=submission, policy=admission)


def submit_policy(settings: Settings, problems: Problems, report: Callable[[str, str], None] = lambda detail, remedy: None) -> SubmitPolicy:
    """Open the policy of the installed package. report: is told what an operator should know, and what to do; "": nothing."""
    open_policy = extensions.part(extensions.SUBMIT_POLICIES, "competitions")
    if open_policy is not None:
        return cast(SubmitPolicy, open_policy(settings, problems, report))
    if settings.competitions:
        raise SettingsInvalid("competitions", f"no installed package reads them; {extensions.HOW_TO_INSTALL}")
    return NoCompetitions()


def check_submission(
    request: grader_service_pb2.SubmitRequest, find_problem: Callable[[str], Problem], device_kinds: Sequence[str]
) -> Accepted:
    """Check fields and files. Raises InvalidSubmission with all violations, ProblemNotFound (by find_problem), NoSuchDevice."""
    message = request.submission
    sources = tuple(SourceFile(path=source.path, content=source.content) for source in message.sources)
    violations = _Violations([*check_request_id(request.request_id), *check_sources(sources)])
    entry = message.entry
    if len(entry) > ENTRY_LIMIT_CHARS or (entry and not (entry.isidentifier() and entry.isascii())):
        violations.add("entry", f"{entry[:40]!r} is not a function name; write letters, digits and '_', or leave it out")
    violations += check_labels(message.tags, message.parent, message.annotations)
    if (wrong_name := violation(PROBLEMS, message.problem, "problem")) is not None:
        text = f"{wrong_name.description}; `grader-cli problems list` lists them"
        raise InvalidSubmission([*violations, FieldViolation("problem", text)])
    problem_id = resource_id(PROBLEMS, message.problem)
    problem = find_problem(problem_id)
    try:
        mode = from_enum(wire.Mode, submission_pb2.Mode.DESCRIPTOR, message.mode) if message.mode else wire.Mode.BENCHMARK
    except ValueError:
        mode, names = wire.Mode.BENCHMARK, ", ".join(f"MODE_{mode.name}" for mode in wire.Mode)
        violations.add("mode", f"{int(message.mode)} is not known here; take one of: {names}")
    if message.HasField("sweep") and mode is not wire.Mode.SWEEP:
        violations.add("sweep", "is for MODE_SWEEP only; set that mode, or leave it out")
    violations += check_precision(message, mode)
    if message.cascade and mode not in CORE_MODES:
        violations.add("cascade", f"is not for MODE_{mode.name}; leave it out, or take MODE_TEST, MODE_BENCHMARK or MODE_RANKED")
    if request.allow_cached_result and mode not in REUSED_MODES:
        text = f"a result is never reused in MODE_{mode.name}; leave it out, or take MODE_TEST or MODE_BENCHMARK"
        violations.add("allow_cached_result", text)
    language, wrong_language = _language(message.language, sources, problem)
    violations += wrong_language
    info = languages().get(language)
    if info is not None and 0 < info.file_limit < len(sources):
        limit = "a single file" if info.file_limit == 1 else f"at most {info.file_limit} files"
        violations.add("sources", f"a {language} submission must be {limit} (got {len(sources)}); embed CUDA sources as strings")
    if not violations:
        remedy = missing_entry(language, sources, entry or entry_in(problem.spec, language))
        if remedy is not None:
            signature = declaration(problem.spec, language)
            text = f"the entry point is missing: {remedy}" + (f"; the problem asks for `{signature}`" if signature else "")
            violations.add("entry" if entry else "sources", text)
    if violations:
        raise InvalidSubmission(violations)
    if message.device_kind and not devices.is_offered(message.device_kind, device_kinds):
        raise NoSuchDevice(message.device_kind, tuple(device_kinds))
    submission = NewSubmission(
        problem_id=problem_id,
        language=language,
        sources=sources,
        entry=entry,
        device_kind=message.device_kind,
        mode=mode,
        tags=tuple(sorted(message.tags)),
        parent_id=resource_id(SUBMISSIONS, message.parent),
        annotations=dict(message.annotations),
        precision=message.precision if message.HasField("precision") else None,
        measure_s=message.measure_duration.ToNanoseconds() / 1e9 if message.HasField("measure_duration") else None,
        skip_sanitizer=message.skip_sanitizer,
        cascade=message.cascade or (problem.cascade and mode in CORE_MODES),
    )
    allow_cached, batch = request.allow_cached_result, request.batch
    return Accepted(submission=submission, problem=problem, request_id=request.request_id, allow_cached=allow_cached, batch=batch)


def check_sources(sources: Sequence[SourceFile]) -> list[FieldViolation]:
    """Return the violations of the files: of their paths, their number, their size."""
    if not sources:
        return [FieldViolation("sources", "there are none; add at least one file")]
    if len(sources) > SOURCE_COUNT_LIMIT:
        return [FieldViolation("sources", f"there are {len(sources)}, and at most {SOURCE_COUNT_LIMIT} are taken; join some")]
    violations, first_index = _Violations(), dict[str, int]()
    for index, source in enumerate(sources):
        if (fault := _path(source.path)) is not None:
            violations.add(f"sources[{index}].path", fault)
        elif source.path in first_index:
            violations.add(f"sources[{index}].path", f"{source.path!r} is also the path of sources[{first_index[source.path]}]; rename one")
        elif (above := next((file.path for file in sources if source.path.startswith(file.path + "/")), None)) is not None:
            violations.add(f"sources[{index}].path", f"{source.path!r} lies in {above!r}, which is a file here; rename one")
        if not source.content.strip() and PurePosixPath(source.path).name != "__init__.py":  # it makes its directory a package
            violations.add(f"sources[{index}].content", "is empty; leave the file out, or send what it holds")
        elif "\0" in source.content:
            violations.add(f"sources[{index}].content", "holds a NUL character, so it is not text; send source code")
        first_index.setdefault(source.path, index)
    size = sum(len(source.content.encode()) for source in sources)
    if size > SOURCE_LIMIT_BYTES:
        text = f"hold {size} bytes together, and at most {SOURCE_LIMIT_BYTES} (1 MiB) are taken; leave out what the kernel does not need"
        violations.add("sources", text)
    return violations


def _path(path: str) -> str | None:
    if not path:
        return "is empty; write a relative path such as 'kernel.cu'"
    if len(path.encode()) > PATH_LIMIT_BYTES:
        return f"is longer than {PATH_LIMIT_BYTES} bytes; shorten it"
    if not path.isprintable() or "\\" in path:
        return f"source path {path!r} has a backslash or a character that does not print; write it with '/' and plain characters"
    # The remedy keeps what may be kept of the path: no root, no way up.
    inside = posixpath.join(*[part for part in path.split("/") if part not in ("", ".", "..")] or ["kernel.cu"])
    if path.startswith("/"):
        return f"source path {path!r} is absolute; write '{inside}'"
    if ".." in path.split("/"):
        normalized = posixpath.normpath(path)
        return f"source path {path!r} is not normalized; write '{inside if normalized.startswith('..') else normalized}'"
    if posixpath.normpath(path) != path or path == ".":
        return f"source path {path!r} is not normalized; write '{inside}'"
    return None


def check_request_id(request_id: str) -> list[FieldViolation]:
    """Return the violation of a request id, which is a UUID or left out."""
    try:
        if not request_id or str(uuid.UUID(request_id)) == request_id.lower():
            return []
    except ValueError:
        pass
    text = f"{request_id!r} is not a UUID; write one such as '{uuid.UUID(int=1 << 78 | 1 << 63)}', or leave it out"
    return [FieldViolation("request_id", text)]


def _language(language: str, sources: Sequence[SourceFile], problem: Problem) -> tuple[str, list[FieldViolation]]:
    choices = ", ".join(problem.languages)
    if language and language not in problem.languages:
        text = f"problem {problem.problem_id!r} does not take {language!r}; take one of: {choices}"
        return language, [FieldViolation("language", text)]
    detected = language or detect(sources)
    if detected is None:
        suffixes = ", ".join(dict.fromkeys(suffix for info in languages().values() for suffix in info.suffixes))
        text = f"no source is of a known kind ({suffixes}); name the file so, or set one of: {choices}"
        return "", [FieldViolation("language", text)]
    if detected not in problem.languages:
        text = f"the sources look like {detected!r}, which problem {problem.problem_id!r} does not take; take one of: {choices}"
        return detected, [FieldViolation("language", text)]
    return detected, []


def check_precision(message: submission_pb2.Submission, mode: wire.Mode) -> list[FieldViolation]:
    """Return the violations of `precision` and `measure_duration`. Ranked results are measured alike, so there is no choice."""
    violations = _Violations()
    for name, modes in _TIMED.items():
        if message.HasField(name) and mode not in modes:
            names = " and ".join(f"MODE_{choice.name}" for choice in modes)
            text = f"is for {names} only, and this is MODE_{mode.name}; leave it out"
            if mode is wire.Mode.RANKED:
                text = f"is for {names} only: the server decides how ranked results are measured, the same for everybody; leave it out"
            elif mode is wire.Mode.SWEEP:
                text = f"is for {names} only; set `sweep.measure_duration` for a sweep"
            violations.add(name, text)
    if message.HasField("precision") and not PRECISION_LEAST <= message.precision <= PRECISION_MOST:
        bounds = f"from {PRECISION_LEAST:g} to {PRECISION_MOST:g} ({100 * PRECISION_LEAST:g} to {100 * PRECISION_MOST:g} %)"
        text = f"is {message.precision:g} ({100 * message.precision:g} %); it has to be {bounds}, such as 0.01 for one percent"
        violations.add("precision", text)
    if message.HasField("measure_duration"):
        seconds = message.measure_duration.seconds + message.measure_duration.nanos / 1e9
        if not MEASURE_LEAST_S <= seconds <= MEASURE_MOST_S:
            violations.add("measure_duration", f"is {seconds:g} s; it has to be from {MEASURE_LEAST_S:g} s to {MEASURE_MOST_S:g} s")
    return violations


# The server's half of the languages: which one a submission is in, and whether its entry point can be there at all. Only sure misses are
# reported: a submission that might build goes to the builder, which knows.

_CONTINUED_LINE = re.compile(r"\\[ \t]*+\r?\n")


@lru_cache(maxsize=1)  # what language it is and what it lacks are asked one after the other
def _code(sources: tuple[SourceFile, ...]) -> str:
    """All sources as one text without comments, and with continued lines joined."""
    texts = []
    for source in sources:
        parts = tokens(C, _CONTINUED_LINE.sub("", source.content))
        # A comment that is not closed is an error, which the builder reports.
        texts.append("".join(" " if kind == COMMENT and (part.startswith("//") or part.endswith("*/")) else part for kind, part in parts))
    return "\n".join(texts)


def detect(sources: Sequence[SourceFile]) -> str | None:
    """The language's name; None where no file is of a known one. A language without a marker is what remains."""
    suffixes = {PurePosixPath(source.path).suffix for source in sources}
    fitting = [info for info in languages().values() if not suffixes.isdisjoint(info.suffixes)]
    if not fitting:
        return None
    first = min(fitting, key=lambda info: info.is_c)  # a Python module may bring CUDA files along
    rivals = [info for info in fitting if info.suffixes == first.suffixes]
    marked = [info for info in rivals if info.marker is not None and info.marker.search(_text(info, sources))]
    return next((info.name for info in (*marked, *rivals) if info in marked or info.marker is None), None)


def missing_entry(language: str, sources: Sequence[SourceFile], entry: str) -> str | None:
    """Say what to do about an entry point that is surely not there; None where it may be."""
    info = languages().get(language)
    return None if info is None else info.missing_entry(_text(info, sources), entry)


def _text(language: LanguageInfo, sources: Sequence[SourceFile]) -> str:
    return _code(tuple(sources)) if language.is_c else "\n".join(source.content for source in sources)


# The tags, the parent's name and the annotations of a submission.

TAG_LIMIT, ANNOTATION_LIMIT = 16, 16
TAG_LIMIT_CHARS, ID_LIMIT_CHARS, VALUE_LIMIT_CHARS = 64, 64, 256
_TAG = re.compile(rf"[A-Za-z0-9._/:=-]{{1,{TAG_LIMIT_CHARS}}}")
_PLAIN = f"write 1 to {TAG_LIMIT_CHARS} letters, digits and characters of '._/:=-'"


def check_labels(tags: Sequence[str], parent: str, annotations: Mapping[str, str]) -> list[FieldViolation]:
    """Return their violations, by field."""
    violations = _Violations()
    if len(tags) > TAG_LIMIT:
        violations.add("tags", f"there are {len(tags)}; send at most {TAG_LIMIT}")
    for index, tag in enumerate(tags if len(tags) <= TAG_LIMIT else ()):
        violations += check_tag(tag, f"tags[{index}]")
        if tag in tags[:index]:
            violations.add(f"tags[{index}]", f"{tag[:TAG_LIMIT_CHARS]!r} is sent twice; send it once")
    if parent and (wrong := violation(SUBMISSIONS, parent, "parent")) is not None:
        violations.append(wrong)
    elif len(parent) > len(SUBMISSIONS) + 1 + ID_LIMIT_CHARS or "\0" in parent:
        violations.add("parent", "is not the name of a submission; send one as Submit returned it")
    if len(annotations) > ANNOTATION_LIMIT:
        violations.add("annotations", f"there are {len(annotations)}; send at most {ANNOTATION_LIMIT}")
        return violations
    for key, value in sorted(annotations.items()):
        field = f"annotations[{key[:TAG_LIMIT_CHARS]!r}]"
        if not _TAG.fullmatch(key):
            violations.add(field, f"this key is not plain; {_PLAIN}")
        elif len(value) > VALUE_LIMIT_CHARS:
            violations.add(field, f"its value has {len(value)} characters; send at most {VALUE_LIMIT_CHARS}")
        elif not value.isprintable():
            violations.add(field, "its value has a character that does not print, such as a line end; leave it out")
    return violations


def check_tag(tag: str, field: str) -> list[FieldViolation]:
    """Return the violations of a tag."""
    return [] if _TAG.fullmatch(tag) else [FieldViolation(field, f"{tag[:TAG_LIMIT_CHARS]!r} is not a tag; {_PLAIN}")]
