"""Runs the check of a problem in a box: its reference sees no network, no file of the host but the toolchain, and bounded resources.

What comes back is a claim of untrusted code. It is read with limits, and it decides nothing but what is said of this problem.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from grader import devices
from grader.cli.exits import GraderFailed, UsageError
from grader.dispatch.gpus import Gpu
from grader.errors import JudgeBroken
from grader.isolation import SRC, BoxExit, BoxSpec, GpuAccess, Isolation, IsolationBroken, Limits, Purpose
from grader.isolation.directories import box_output, hold_slot, leave_runtime, run_directory, shared_slot_directory
from grader.isolation.pickup import Refusal, pick_up
from grader.isolation.select import ClosableIsolation, make
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import package_directory
from grader.isolations import AUTO, safe_isolations
from sandbox.protocol import wire
from sandbox.protocol.entry_points import entry_points
from sandbox.protocol.wire import BoxCause

REFERENCES = "grader.references"  # as GROUP of sandbox/judge/references
REPORT, JOB = "findings", "job"
REPORT_LIMIT_BYTES = 8 << 20
OUT_LIMIT_BYTES = 16 << 20
STAGED_LIMIT_BYTES = 16 << 30  # of a problem's safetensors
CHUNK_BYTES = 1 << 20
MEMORY_VARIABLE = "GRADER_CHECK_MEMORY_BYTES"
LIMITS = Limits(  # wall_s is replaced by the check's own limit, and memory_bytes is at most seven eighths of the host's
    wall_s=300.0,
    cpu_s=3600.0,
    memory_bytes=32 << 30,
    process_count=512,
    output_bytes=16 << 20,
    file_bytes=256 << 20,
    tmp_bytes=512 << 20,
    open_file_count=4096,
)
# {src} has copies of the judge's half of `sandbox` and of ours, which are in no other box.
PROGRAM = "grader_extensions.problem_check.judge.check"
BOOT = f"import sys; sys.path.insert(0, sys.argv.pop(1)); from {PROGRAM} import main; main()"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """How a check in a box ended. content: what it wrote, which may be anything; ended: how the host saw its end."""

    content: bytes
    ended: BoxExit

    @property
    def too_slow(self) -> bool:
        """Return whether the time was over: the process has a limit of its own, which is nearer."""
        return self.ended.cause is BoxCause.WALL_LIMIT or self.ended.signal == signal.SIGALRM


class CheckBox:
    """Checks problems in boxes of one isolation."""

    def __init__(self, isolation: Isolation, settings: BoxSettings, limits: Limits | None = None) -> None:
        self._isolation, self._settings, self._limits = isolation, settings, limits or read_limits()

    async def run(self, jobs: Sequence[wire.AdmissionJob], gpu: Gpu | None, limit_s: float) -> CheckReport:
        """Run checks one after the other, for at most limit_s. JudgeBroken where no box can be had, or files can't be copied into it."""
        try:
            with (
                hold_slot(shared_slot_directory()) as slot,
                self._staged(jobs) as (source_dir, triton_dir),
                box_output(self._settings, limit_bytes=OUT_LIMIT_BYTES, inode_count=64) as out_dir,
            ):
                spec = self._spec(slot, source_dir, out_dir, triton_dir, gpu, limit_s)
                async with self._isolation.start(spec) as box:
                    ended = await box.wait()
                content = pick_up(out_dir, REPORT, limit_bytes=REPORT_LIMIT_BYTES)
        except (IsolationBroken, OSError) as error:
            raise JudgeBroken(f"no box for the check: {error}") from None
        return CheckReport(content=b"" if isinstance(content, Refusal) else content, ended=ended)

    def _spec(self, slot: int, source_dir: Path, out_dir: Path, triton_dir: Path, gpu: Gpu | None, limit_s: float) -> BoxSpec:
        access = None
        if gpu is not None:
            access = GpuAccess(index=gpu.index, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor, triton_dir=triton_dir)
        kind = devices.EMULATED if gpu is None else gpu.kind
        limits = dataclasses.replace(self._limits, wall_s=limit_s)
        return BoxSpec(
            box_id=f"problem-{secrets.token_hex(6)}",
            purpose=Purpose.CHECK,
            argv=("{python}", "-I", "-B", "-c", BOOT, "{src}", kind, f"{{src}}/{JOB}", f"{{out}}/{REPORT}"),
            limits=limits,
            slot=slot,
            src_dir=source_dir,
            out_dir=out_dir,
            environment=((MEMORY_VARIABLE, str(limits.memory_bytes)), ("TRITON_CACHE_DIR", "/tmp/triton")),
            gpu=access,
        )

    @contextmanager
    def _staged(self, jobs: Sequence[wire.AdmissionJob]) -> Iterator[tuple[Path, Path]]:
        """Copy what the box needs: the judge's code, the jobs and the data that they name."""
        directory = Path(tempfile.mkdtemp(prefix="check-", dir=run_directory(self._settings)))
        try:
            directory.chmod(0o755)
            source_dir, triton_dir = directory / "src", directory / "triton"
            source_dir.mkdir()
            triton_dir.mkdir()
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(package_directory("sandbox"), source_dir / "sandbox", ignore=ignored, copy_function=shutil.copyfile)
            copy_module(PROGRAM, source_dir)
            staged = []
            for index, job in enumerate(jobs):
                data_dir = source_dir / f"job-{index}"
                data_dir.mkdir()
                problem = staged_problem(job.problem, data_dir, f"{SRC}/{data_dir.name}")
                module = point.value if (point := entry_points(REFERENCES).get(job.problem.format)) else ""
                if module:  # of a format that an installed package brings
                    copy_module(module, source_dir)
                staged.append(dataclasses.replace(job, problem=problem, reference_module=module))
            (source_dir / JOB).write_bytes(b"".join(map(wire.encode, staged)))
            for path in (directory, *directory.rglob("*")):  # a box has a uid of its own, and our umask may be a strict one
                path.chmod(0o755 if path.is_dir() else 0o644)
            yield source_dir, triton_dir
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def copy_module(name: str, directory: Path) -> None:
    """Copy a module, with those beside it, into directory. JudgeBroken where it can't be found."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None or spec.submodule_search_locations:
        raise JudgeBroken(f"the module {name!r} is missing, or a package; install its package again, or remove it")
    *packages, _ = name.split(".")
    source, target = Path(spec.origin), directory.joinpath(*packages)
    target.mkdir(parents=True, exist_ok=True)
    for path in source.parent.glob("*.py") if packages else [source]:
        shutil.copyfile(path, target / path.name)
    for depth in range(1, len(packages)):
        shutil.copyfile(source.parents[depth] / "__init__.py", target.parents[depth - 1] / "__init__.py")


def read_limits() -> Limits:
    """Return the limits of a check, with no more memory than the host can give."""
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return dataclasses.replace(LIMITS, memory_bytes=min(LIMITS.memory_bytes, host_bytes // 8 * 7))


def staged_problem(problem: wire.ProblemSpec, directory: Path, seen_as: str = SRC) -> wire.ProblemSpec:
    """Copy the tensors that a problem takes from files into directory; return the problem with the paths that a box sees.

    JudgeBroken where they are over STAGED_LIMIT_BYTES together.
    """
    names: dict[tuple[str, int, int], str] = {}
    left_bytes = STAGED_LIMIT_BYTES
    workloads = []
    for workload in problem.workloads:
        arguments = json.loads(workload.arguments) if workload.arguments else None
        inputs = arguments.get("inputs") if isinstance(arguments, dict) else None
        stored = [source for source in inputs.values() if source.get("type") == "safetensors"] if isinstance(inputs, dict) else []
        for source in stored:
            key = (source["path"], source["begin"], source["end"])
            size = source["end"] - source["begin"]
            if key not in names:
                left_bytes -= size
                if left_bytes < 0:
                    raise JudgeBroken(f"its safetensors have over {STAGED_LIMIT_BYTES} bytes; leave workloads out, or pass --trusted")
                names[key] = f"data-{len(names)}"
                _copy_range(Path(source["path"]), source["begin"], size, directory / names[key])
            source |= {"path": f"{seen_as}/{names[key]}", "begin": 0, "end": size}
        workloads.append(dataclasses.replace(workload, arguments=json.dumps(arguments, sort_keys=True)) if stored else workload)
    return dataclasses.replace(problem, workloads=tuple(workloads))


def _copy_range(source: Path, begin: int, size: int, target: Path) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        reading.seek(begin)
        while size and (chunk := reading.read(min(size, CHUNK_BYTES))):
            writing.write(chunk)
            size -= len(chunk)


@asynccontextmanager
async def open_box(sandbox: str, *, trusted: bool = False) -> AsyncIterator[CheckBox | None]:
    """Open the box that a check runs in; None where the problem is trusted. GraderFailed where no isolation works here."""
    if trusted:
        if sandbox != AUTO:
            raise UsageError("--trusted runs the problem's code without a sandbox; leave out --sandbox or --trusted")
        yield None
        return
    directory = Path(tempfile.gettempdir()) / f"grader-check-{os.geteuid()}"
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise GraderFailed(f"{directory} belongs to another user; remove it, or set TMPDIR to a directory of your own")
    state_id = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]
    settings = BoxSettings(state_id=f"check{state_id}", runtime_dir=directory)
    names = safe_isolations() if sandbox == AUTO else [sandbox]
    # The lock lies where the slots' are: the directory itself is removed with the last check.
    locks = shared_slot_directory()
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = locks / f"{directory.name}-{hashlib.sha256(bytes(directory.resolve())).hexdigest()[:12]}.lock"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as lock:
        alone = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another check of this user runs
            alone = False
            fcntl.flock(lock, fcntl.LOCK_SH)
        run_directory(settings)  # while it is there, another check that ends leaves the files that boxes share
        try:
            isolation = await usable_isolation(names, settings)
            try:
                if alone:
                    await isolation.sweep()  # removes the boxes of a check that was killed
                    fcntl.flock(lock, fcntl.LOCK_SH)
                yield CheckBox(isolation, settings)
            finally:
                await isolation.close()
        finally:
            leave_runtime(settings)


async def usable_isolation(names: Sequence[str], settings: BoxSettings) -> ClosableIsolation:
    """Return the first of these isolations that works here; GraderFailed where none does."""
    reasons = []
    for name in names:
        isolation = make(name, settings)
        finding = await isolation.check()
        if finding.usable:
            return isolation
        await isolation.close()
        reasons.append(f"{name}: {finding.detail}")
    raise GraderFailed(
        f"no sandbox for the problem's code works here ({'; '.join(reasons)}); "
        "install bubblewrap or start a Docker engine, or pass --trusted to run the code as you"
    )
