"""Results of a build box's end and of its files, and builds that need no box at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from grader.artifacts import ArtifactCache
from grader.dispatch.local_fleet import PROFILES, read_profile
from grader.errors import JudgeBroken, SandboxBroken
from grader.grading import pipeline
from grader.grading.attempt import StepClock, Workspace
from grader.grading.pipeline import FALLBACK_LIMIT_CHARS, NOTE_LIMIT_BYTES, _build_outcome, build_artifact, cut, read_note
from grader.isolation import Box, BoxExit, BoxSpec
from grader.isolation.pickup import Refusal, RefusalReason
from grader.model import Lease, SourceFile
from sandbox.compilers import steps
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, BuildOutcome
from tests import fakes

BUILT = BoxExit(cause=BoxCause.EXITED, exit_code=0, output=b"warning: unused")


@pytest.mark.parametrize("piece", ["a", "ä", "‘", "\N{GRINNING FACE}"])
def test_text_of_any_width_is_cut_to_its_bytes(piece: str) -> None:
    """Never over the limit, and never a half character at the end."""
    text, truncated = cut((piece * 100_000).encode()[: wire.LOG_LIMIT_BYTES])
    assert truncated and len(text.encode()) <= wire.LOG_LIMIT_BYTES and set(text) == {piece}


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (BoxExit(cause=BoxCause.EXITED, exit_code=0), (BuildOutcome.BUILT, None)),
        (BoxExit(cause=BoxCause.EXITED, exit_code=7), (BuildOutcome.REJECTED, None)),
        (BoxExit(cause=BoxCause.EXITED, exit_code=3), (BuildOutcome.REJECTED, "UNSUPPORTED")),
        (BoxExit(cause=BoxCause.EXITED, exit_code=4), (BuildOutcome.REJECTED, "ENTRY_NOT_FOUND")),
        (BoxExit(cause=BoxCause.EXITED, exit_code=6), (BuildOutcome.REJECTED, "IMPORT_FAILED")),
        (BoxExit(cause=BoxCause.SIGNALLED, signal=11), (BuildOutcome.REJECTED, "BUILDER_DIED")),
        (BoxExit(cause=BoxCause.SANDBOX_VIOLATION, signal=31), (BuildOutcome.REJECTED, "BUILDER_DIED")),
        (BoxExit(cause=BoxCause.WALL_LIMIT), (BuildOutcome.TIMED_OUT, None)),
        (BoxExit(cause=BoxCause.MEMORY_LIMIT), (BuildOutcome.OUT_OF_MEMORY, None)),
        (BoxExit(cause=BoxCause.OUTPUT_LIMIT), (BuildOutcome.OUTPUT_EXCEEDED, None)),
    ],
)
def test_only_a_clean_exit_is_a_build(end: BoxExit, outcome: tuple[BuildOutcome, str | None]) -> None:
    """Every other end of a build box is the submission's failure."""
    assert _build_outcome(end) == outcome


@pytest.mark.parametrize("code", [5, 1, 2, 127])
def test_a_broken_builder_is_our_fault(code: int) -> None:
    """Then the attempt is repeated and nobody is blamed: also where its interpreter could not even import it."""
    with pytest.raises(SandboxBroken, match="ModuleNotFoundError"):
        _build_outcome(BoxExit(cause=BoxCause.EXITED, exit_code=code, output=b"ModuleNotFoundError: No module named 'tree_sitter'"))


def test_both_sides_know_the_builders_exit_codes() -> None:
    """They share no module."""
    reasons = {getattr(steps, name): name for name in ("UNSUPPORTED", "ENTRY_NOT_FOUND", "IMPORT_FAILED")}
    assert reasons == pipeline.BUILD_REASONS and steps.REJECTED == pipeline.COMPILER_REJECTED
    assert steps.BROKEN in pipeline.BUILDER_BROKEN
    assert not pipeline.BUILDER_BROKEN & {steps.BUILT, steps.REJECTED, *reasons}
    assert steps.IMPORT_FAILED not in pipeline.CACHEABLE_EXIT_CODES >= {steps.UNSUPPORTED, steps.REJECTED}


# -- the builder's note --------------------------------------------------------------------------------------------------


def test_a_note_is_read_without_what_steers_a_terminal() -> None:
    """Its sentence is a stranger's, and is cut."""
    note = wire.BuildNote(headers="full", fallback="<map>\x1b[2J\r\n\u202e" + "x" * 1000)
    assert read_note(wire.encode(note)) == wire.BuildNote(headers="full", fallback=("<map>[2J" + "x" * 1000)[:FALLBACK_LIMIT_CHARS])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 4000,
        b'{"type": []}',
        b'{"type": "BuildNote", "headers": 1}',
        b'{"type": "BuildNote", "headers": "own"}',
        b'{"type": "BuildNote", "cached": true}',
        wire.encode(wire.Load(outcome=wire.LoadOutcome.LOADED)),
        Refusal(reason=RefusalReason.SYMLINK, sentence="a link"),
    ],
)
def test_anything_else_is_an_empty_note(content: bytes | Refusal) -> None:
    """A note decides nothing, so nobody is blamed for a bad one."""
    assert read_note(content) == wire.BuildNote()


USE = wire.KernelUse(name="work(float*)", registers=32, shared_bytes=48 << 10)


@pytest.mark.parametrize(
    ("figure", "expected_note"), [(2**31, wire.BuildNote(kernels=(USE,))), (-1, wire.BuildNote()), (10**4000, wire.BuildNote())]
)
def test_figures_that_nobody_can_store_are_left_out(figure: int, expected_note: wire.BuildNote) -> None:
    """The others stay, unless no fact may have such a number: then nothing of the note does."""
    assert read_note(wire.encode(wire.BuildNote(kernels=(replace(USE, spill_load_bytes=figure), USE)))) == expected_note


def test_kernels_have_a_number_and_names_a_length() -> None:
    note = wire.BuildNote(kernels=(replace(USE, name="\x1b[2J" + "x" * 1000), *[USE] * 100))
    kernels = read_note(wire.encode(note)).kernels
    assert len(kernels) == 32 and kernels[0].name == ("[2J" + "x" * 1000)[:200]


def test_the_longest_honest_note_is_taken() -> None:
    """As many kernels and as long names as the builder writes, none of them ASCII."""
    note = wire.BuildNote(headers="full", fallback="ä" * 300, kernels=(replace(USE, name="ä" * 200, registers=255),) * 32)
    assert len(wire.encode(note)) <= NOTE_LIMIT_BYTES and read_note(wire.encode(note)) == note


# -- the cache -----------------------------------------------------------------------------------------------------------


class FakeIsolation:
    """Boxes that leave an artifact and a note, and are counted."""

    NAME, SAFE = "fake", True

    def __init__(self) -> None:
        self.count = 0
        self.toolchain, self.stale = "toolchain 1", ""
        self.after_build = "toolchain 1"
        self.end = BUILT
        self.environment: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.job = wire.BuildJob(language="", entry="", device_kind="", sources=())

    async def fingerprint(self, *, fresh: bool = False) -> str:
        if fresh:
            self.stale = ""
        return self.stale or self.toolchain

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        self.count += 1
        self.environment = dict(spec.environment)
        assert spec.src_dir is not None and spec.out_dir is not None
        files = {path.relative_to(spec.src_dir).as_posix(): path.read_bytes() for path in spec.src_dir.rglob("*") if path.is_file()}
        self.job = wire.decode(files.pop("job.json"))
        self.files = files
        (spec.out_dir / "artifact").write_bytes(b"artifact of " + files["files/kernel.cu"])
        (spec.out_dir / "note.json").write_bytes(wire.encode(wire.BuildNote(headers="light", kernels=(USE,))))
        self.stale, self.toolchain = self.toolchain, self.after_build
        yield fakes.EndedBox(self.end)


class FakeHost:
    """The parts of a host that building needs; `cores` is how many may build."""

    def __init__(self, place: Path, cache: ArtifactCache | None) -> None:
        self.isolation = FakeIsolation()
        self.profile = read_profile(PROFILES / "limits.toml")
        self.cache = cache
        self.cores = asyncio.Semaphore(1)
        self._place, self._count = place, 0
        self.adopts = False  # a copy of the toolchain while a box builds

    def generation(self) -> int:
        return self.isolation.count if self.adopts else 0

    def builder(self) -> asyncio.Semaphore:
        return self.cores

    @asynccontextmanager
    async def turn(self, *, secret: bool) -> AsyncIterator[None]:
        assert not secret
        yield

    def work(self) -> Workspace:
        self._count += 1
        root = self._place / f"work{self._count}"
        for name in ("src", "out", "link"):
            (root / name).mkdir(parents=True)
        return Workspace(
            source_dir=root / "src",
            out_dir=root / "out",
            link_dir=root / "link",
            artifact_path=root / "artifact",
            slot=0,
            box_id="box",
            make_output=lambda: nullcontext(root / "out"),
        )


def lease(content: str = "int x;", **fields: str) -> Lease:
    submission = replace(fakes.new_submission(**fields), sources=(SourceFile(path="kernel.cu", content=content),))
    return fakes.lease(submission)


async def built(
    host: FakeHost, wanted: Lease | None = None, device_kind: str = "emulated", architecture: str = ""
) -> tuple[wire.Build, bytes | None]:
    work = host.work()
    environment = wire.Environment(device="a device", device_kind=device_kind, clock=wire.Clock.HOST, architecture=architecture)
    build = await build_artifact(wanted or lease(), host, work, environment, StepClock())  # type: ignore[arg-type]
    return build, work.artifact_path.read_bytes() if work.artifact_path.exists() else None


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path, ArtifactCache(tmp_path / "cache", 1 << 20))


async def test_the_second_time_no_box_is_needed(host: FakeHost) -> None:
    """Same bytes, same log, same note and kernels; said to be cached, and with the time that it took now. __DATE__ makes no difference."""
    (first, artifact), (second, same) = await built(host), await built(host)
    assert host.isolation.count == 1 and artifact == same == b"artifact of int x;"
    assert second == replace(first, cached=True, duration_ns=second.duration_ns)
    assert (first.cached, first.headers, first.log, first.kernels) == (False, "light", "warning: unused", (USE,))
    assert host.isolation.environment["SOURCE_DATE_EPOCH"] == "0"


async def test_nobody_learns_from_the_cache_what_another_user_submitted(host: FakeHost) -> None:
    """Another user's first build of the same source is a build: not called cached, and as long as one. A user's own second is found."""
    alice, bob = lease(user="alice"), lease(user="bob")
    cached_flags = [(await built(host, wanted))[0].cached for wanted in (alice, bob, bob, alice)]
    assert cached_flags == [False, False, True, True] and host.isolation.count == 2


async def test_without_users_in_the_key_the_cache_tells(host: FakeHost) -> None:
    """The control: where both have one name, as without users in the key, the second is told that there was a first."""
    assert [(await built(host, lease(user="one")))[0].cached for _ in range(2)] == [False, True]


async def test_what_differs_is_built(host: FakeHost) -> None:
    """Source, entry, language, device, its architecture, toolchain, and whether the isolation keeps anybody in."""
    await built(host)
    await built(host, lease("int y;"))
    await built(host, lease(entry="other"))
    await built(host, device_kind="cuda")
    await built(host, device_kind="cuda", architecture="sm_90")
    await built(host, device_kind="cuda", architecture="sm_100")
    await built(host, lease(language="torch_extension"))
    host.isolation.toolchain = host.isolation.after_build = "toolchain 2"
    await built(host)
    host.isolation.SAFE = False
    await built(host)
    assert host.isolation.count == 9


async def test_the_box_knows_of_the_call_what_everybody_may(host: FakeHost) -> None:
    """Types, axes and a size that is shown, the smallest for the device; no hidden size, and nothing of how inputs are drawn."""
    wanted = lease()
    spec = wanted.problem.spec
    drawn = replace(spec.inputs[0], distribution=wire.Distribution(kind="uniform", low=3.0))
    shown = (wire.Workload(workload_id="n128", axes={"n": 128}), wire.Workload(workload_id="n1", axes={"n": 1}, device_kind="cuda"))
    spec = replace(spec, inputs=(drawn, *spec.inputs[1:]), workloads=(*shown, *spec.workloads))
    await built(host, replace(wanted, problem=replace(wanted.problem, spec=spec)))
    assert isinstance(host.isolation.job, wire.BuildJob) and (call := host.isolation.job.call) is not None
    assert (call.sizes, call.axes, call.inputs[0].shape, call.outputs) == ({"n": 64}, ("n",), ("n",), spec.outputs)
    assert "33" not in wire.encode(host.isolation.job).decode() and call.inputs[0].distribution == wire.Distribution()


@pytest.mark.parametrize(("language", "count"), [("cuda", 3), ("python", 2)])
async def test_a_compiled_entry_of_a_model_is_called_with_its_weights(host: FakeHost, language: str, count: int) -> None:
    """A remark on its parameters would contradict `problems show` otherwise."""
    wanted = lease(language=language)
    weight = wire.TensorSpec(name="weight", dtype="float32", shape=("weight_0",))
    spec = replace(wanted.problem.spec, weights=(weight,), axes=(), convention=wire.Convention.MODEL)
    await built(host, replace(wanted, problem=replace(wanted.problem, spec=spec)))
    assert isinstance(host.isolation.job, wire.BuildJob) and (call := host.isolation.job.call) is not None
    assert len(call.inputs) == count and (call.axes == ("n", "weight_0")) is (language == "cuda")


async def test_a_call_that_only_the_problem_knows_is_left_out(host: FakeHost) -> None:
    """As of a KernelBench file, whose inputs the judge finds out."""
    wanted = lease()
    await built(host, replace(wanted, problem=replace(wanted.problem, spec=replace(wanted.problem.spec, inputs=(), outputs=()))))
    assert isinstance(host.isolation.job, wire.BuildJob) and host.isolation.job.call is None


def with_modules(modules: dict[str, str], language: str = "python") -> Lease:
    """A submission to a problem that gives these files to submissions."""
    wanted = lease(language=language)
    return replace(wanted, problem=replace(wanted.problem, spec=replace(wanted.problem.spec, modules=modules)))


async def test_the_problems_modules_are_built_with_and_are_in_the_key(host: FakeHost) -> None:
    """Two problems with other texts in task.py share no artifact, nor do a module and a source of the same text."""
    modules = {"utils.py": "y = 2\n", "task.py": "x = 1\n"}
    await built(host, with_modules(modules))
    assert host.isolation.job.modules == ("task.py", "utils.py") and host.isolation.job.sources == ("kernel.cu",)
    assert host.isolation.files == {"files/kernel.cu": b"int x;", "modules/task.py": b"x = 1\n", "modules/utils.py": b"y = 2\n"}
    assert (await built(host, with_modules(modules)))[0].cached
    assert not (await built(host, with_modules({**modules, "task.py": "x = 2\n"})))[0].cached
    assert not (await built(host, with_modules({"utils.py": "y = 2\n"})))[0].cached


async def test_only_python_gets_the_problems_modules(host: FakeHost) -> None:
    """They are not in the way of other languages, nor in their key."""
    await built(host, with_modules({"task.py": "x = 1\n"}, "cuda"))
    assert host.isolation.job.modules == () and set(host.isolation.files) == {"files/kernel.cu"}
    assert (await built(host, with_modules({}, "cuda")))[0].cached


@pytest.mark.parametrize("architecture", ["90", "sm_90 --run", "compute_90", "sm_90\n"])
async def test_a_device_of_no_architecture_is_our_fault(host: FakeHost, architecture: str) -> None:
    with pytest.raises(JudgeBroken):
        await built(host, device_kind="cuda", architecture=architecture)
    assert host.isolation.count == 0


async def test_what_is_found_needs_no_core(host: FakeHost) -> None:
    await built(host)
    async with host.cores:
        assert (await asyncio.wait_for(built(host), 300))[0].cached


async def test_who_waits_for_a_build_takes_no_core(host: FakeHost) -> None:
    """Ten jobs with one source, and the only core is free for the one that builds."""
    results = await asyncio.wait_for(asyncio.gather(*(built(host) for _ in range(10))), 300)
    assert host.isolation.count == 1
    assert {artifact for _, artifact in results} == {b"artifact of int x;"}
    assert sorted(build.cached for build, _ in results) == [False] + [True] * 9


async def test_what_was_built_while_the_toolchain_changed_is_not_kept(host: FakeHost) -> None:
    """Nobody knows with which one it was built."""
    host.isolation.after_build = "toolchain 2"
    await built(host)
    host.isolation.toolchain = "toolchain 1"
    assert not (await built(host))[0].cached


async def test_what_was_built_while_a_copy_of_the_toolchain_was_adopted_is_not_kept(host: FakeHost) -> None:
    """Its box saw the files on disk, which may have changed since the copy was made. The control: the next build is kept."""
    host.adopts = True
    await built(host)
    host.adopts = False
    assert [(await built(host))[0].cached for _ in range(2)] == [False, True]


REJECTED = BoxExit(cause=BoxCause.EXITED, exit_code=7, output=b"kernel.cu(1): error: no\n")
MISSING_HEADER = "kernel.cu:1:10: fatal error: nothing.h: No such file or directory\ncompilation terminated.\n"


@pytest.mark.parametrize(("code", "log"), [(3, "error: no\n"), (4, "error: no\n"), (7, "error: no\n"), (7, MISSING_HEADER)])
async def test_what_the_compiler_rejected_is_kept(host: FakeHost, code: int, log: str) -> None:
    """The second time no box is needed: the same log and note, called cached, and no artifact though a box would now leave one."""
    host.isolation.end = replace(REJECTED, exit_code=code, output=log.encode())
    first, nothing = await built(host)
    host.isolation.end = BUILT
    second, still_nothing = await built(host)
    assert host.isolation.count == 1 and nothing is still_nothing is None
    assert second == replace(first, cached=True, duration_ns=second.duration_ns)
    assert (first.outcome, first.log, first.headers) == (BuildOutcome.REJECTED, log, "light")


async def test_another_users_rejection_is_a_build(host: FakeHost) -> None:
    """As of what was built. The control: a user's own is found."""
    host.isolation.end = REJECTED
    cached_flags = [(await built(host, lease(user=user)))[0].cached for user in ("alice", "bob", "bob")]
    assert cached_flags == [False, False, True]


@pytest.mark.parametrize(
    "end",
    [
        BoxExit(cause=BoxCause.WALL_LIMIT),
        BoxExit(cause=BoxCause.MEMORY_LIMIT),
        BoxExit(cause=BoxCause.OUTPUT_LIMIT),
        BoxExit(cause=BoxCause.PROCESS_LIMIT, exit_code=7),
        BoxExit(cause=BoxCause.SIGNALLED, signal=9),
        BoxExit(cause=BoxCause.SANDBOX_VIOLATION, signal=31),
        BoxExit(cause=BoxCause.EXITED, exit_code=6),
        BoxExit(cause=BoxCause.EXITED, exit_code=99),
        replace(REJECTED, output=b"g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"),
        replace(REJECTED, output=b"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"),
        replace(REJECTED, output=b"cc1plus: out of memory allocating 65536 bytes\n"),
        replace(REJECTED, output=b"kernel.cu:3:1: internal compiler error: Segmentation fault\n"),
        replace(REJECTED, output=b"as: BFD: write: No space left on device\n"),
        replace(REJECTED, output=b"x\nninja: fatal: fork: Resource temporarily unavailable\n"),
        replace(REJECTED, output=f"{steps.UNFINISHED}\n".encode()),
        replace(REJECTED, output=b"e" * wire.LOG_LIMIT_BYTES),  # its end is not known
    ],
    ids=lambda end: f"{end.cause.value}-{end.exit_code}-{end.output[:24]!r}",
)
async def test_what_may_be_built_the_next_time_is_not_kept(host: FakeHost, end: BoxExit) -> None:
    """The next one is judged anew: a limit, a compiler that was killed, a host that lacked something. The control is above."""
    host.isolation.end = end
    assert (await built(host))[1] is None
    host.isolation.end = BUILT
    assert (await built(host))[1] is not None


LACKING = replace(BUILT, output=b"kernel.py:2: note: RuntimeError: can't start new thread\n")
NAMED = replace(BUILT, output=b"ptxas info    : Compiling entry function 'killed' for 'sm_90'\n")


@pytest.mark.parametrize(("language", "end", "is_kept"), [("python", LACKING, False), ("python", BUILT, True), ("cuda", NAMED, True)])
async def test_a_module_built_without_what_the_host_lacked_is_not_kept(host: FakeHost, language: str, end: BoxExit, is_kept: bool) -> None:
    """A module may go on without an extension whose compiler was stopped. What a compiler left is whole, whatever names its log quotes."""
    host.isolation.end = end
    assert (await built(host, lease(language=language)))[1] is not None
    assert (await built(host, lease(language=language)))[0].cached is is_kept


@pytest.mark.parametrize(("code", "count"), [(3, 2), (4, 2), (7, 1)])
async def test_of_what_is_imported_only_the_compilers_word_is_kept(host: FakeHost, code: int, count: int) -> None:
    """A package that is missing today may be installed tomorrow, and the toolchain's fingerprint does not have it."""
    wanted = lease(language="python")
    host.isolation.end = replace(REJECTED, exit_code=code)
    assert [(await built(host, wanted))[0].outcome for _ in range(2)] == [BuildOutcome.REJECTED] * 2
    assert host.isolation.count == count


async def test_a_servers_umask_does_not_keep_the_box_from_its_sources(host: FakeHost) -> None:
    """The box has a uid of its own: it must be able to read every file, and to pass every directory."""
    work, environment = host.work(), wire.Environment(device="a device", device_kind="emulated", clock=wire.Clock.HOST)
    before = os.umask(0o077)
    try:
        await build_artifact(lease(), host, work, environment, StepClock())  # type: ignore[arg-type]
    finally:
        os.umask(before)
    modes = {path.relative_to(work.source_dir).as_posix(): path.stat().st_mode & 0o777 for path in work.source_dir.rglob("*")}
    assert modes == {"files": 0o755, "files/kernel.cu": 0o644, "job.json": 0o644}
