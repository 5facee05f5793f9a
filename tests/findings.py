"""Runs every demonstration of a directory of findings again, on the emulated device, and prints a table: result then, result now.

    python -m tests.findings ../shared/findings/security [--isolation docker|bubblewrap|process|auto] [--only WORD] [--json]

The demonstrations are those of the security review of 3173dc3: kernels, which are graded, and scripts, which run unchanged beside a server
of this machine. Exit code 1 if one of them still works, 2 if a source is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.api.client import GraderClient
from grader.errors import GraderError
from grader.formats import native
from grader.model import Verdict
from grader.observability import log
from grader.v1 import submission_pb2
from sandbox.protocol import wire
from tests.harness.grading import Graded, Grading, grader
from tools.page import table_lines
from tools.service import host

ROOT = Path(__file__).parents[1]
PROBLEMS = {"scale_add": "tests/honest/problems/scale_add", "own_kernels_only": "tests/honest/problems/own_kernels_only"}
HIDDEN_SIZES = ("4099", "1000003")  # of scale_add and vector_add
API_PORTS, WEB_PORT, START_S, SCRIPT_S = {"srv": 50661, "q": 50671}, 50662, 60.0, 150.0  # as the scripts have them
GROWTH_MIB = 50.0
QUEUE = ("--queue-limit", "20")

Closed = Callable[[Graded], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One demonstration: what it came to at 3173dc3 and now."""

    item: str
    source: str
    then: str
    now: str
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that is graded. after: a kernel that is graded just before, on the same machine. item: of the issue."""

    item: str
    source: str
    problem: str
    then: str
    closed: Closed
    mode: wire.Mode = wire.Mode.TEST
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that runs unchanged; `closed` reads what it printed. server: the directory with its keys, "" for none."""

    item: str
    source: str
    then: str
    closed: Callable[[str], bool]
    arguments: tuple[str, ...] = ()
    server: str = ""
    options: tuple[str, ...] = ()
    submits: bool = False  # the first user has a submission before the script runs
    shown: str = ""  # a pattern of the line that the table quotes; the last one without it


def accepted(graded: Graded) -> bool:
    """An honest kernel is."""
    return graded.report.verdict is Verdict.ACCEPTED


def refused(graded: Graded) -> bool:
    """An attack is."""
    return not accepted(graded)


def withheld(graded: Graded) -> bool:
    """No hidden size is in what the submitter sees."""
    return accepted(graded) and not any(size in graded.report.output for size in HIDDEN_SIZES)


def flagged(flag: str) -> Closed:
    """It is accepted, and the report has this flag."""
    return lambda graded: flag in graded.report.flags


def grown_little(printed: str) -> bool:
    """No resident size among those printed is far above the first."""
    sizes = [int(one) for one in re.findall(r"rss (?:before )?(\d+)", printed)]
    return bool(sizes) and max(sizes) - sizes[0] < GROWTH_MIB


def each_rejected(printed: str) -> bool:
    """Each computation of tol/t1.py that the review found accepted fails all tries of one workload at least."""
    wrong = [line for line in printed.splitlines() if re.search(r"zeroed below|no max|one-pass", line)]
    return len(wrong) == 9 and all(re.search(r"\(0, \d+,", line) for line in wrong)


def nobody_elses(printed: str) -> bool:
    """Every call on another user's submission finds nothing."""
    calls = [line for line in printed.splitlines() if re.match(r"bob (get|cancel|watch)", line)]
    return len(calls) == 5 and all("NOT_FOUND" in line for line in calls)


RANKED, BENCHMARK = wire.Mode.RANKED, wire.Mode.BENCHMARK
PRINTED = "ACCEPTED; hidden sizes printed"
KERNELS = (
    Kernel(item="1", source="leak/ranked_tells_itself.cu", problem="scale_add", then=PRINTED, closed=withheld, mode=RANKED),
    Kernel(item="1", source="leak/competition_tells_itself.cu", problem="scale_add", then=PRINTED, closed=withheld, mode=RANKED),
    Kernel(item="1", source="leak/b_reads.cu", problem="vector_add", then=PRINTED, closed=withheld, after="leak/a_writes.cu"),
    Kernel(item="1", source="leak/b_reads_bwrap.cu", problem="vector_add", then=PRINTED, closed=withheld, after="leak/a_writes_bwrap.cu"),
    Kernel(item="2", source="p_scalar/attack.py", problem="p_scalar", then="ACCEPTED, 12.8 ms for 4.7 s", closed=refused, mode=BENCHMARK),
    Kernel(item="2", source="p_scalar/honest.py", problem="p_scalar", then="ACCEPTED", closed=accepted, mode=BENCHMARK),
    Kernel(item="2", source="p_scalar/honest.cu", problem="p_scalar", then="ACCEPTED", closed=accepted, mode=BENCHMARK),
    Kernel(
        item="5",
        source="p_scalar/burns_between.py",
        problem="p_scalar",
        then="ACCEPTED, PyTorch slowed by 1.9",
        closed=flagged("BASELINE_SLOWED"),
        mode=BENCHMARK,
    ),
    Kernel(item="3", source="policy/torch_in_a_thread.py", problem="own_kernels_only", then="ACCEPTED", closed=refused),
    Kernel(item="3", source="policy/numpy_does_it.py", problem="own_kernels_only", then="ACCEPTED", closed=refused),
    Kernel(
        item="5",
        source="claims/claims_a_nanosecond.py",
        problem="vector_add",
        then="1 ns confirmed",
        closed=flagged("REPORTED_TIME_NOT_CONFIRMED"),
        mode=BENCHMARK,
    ),
    Kernel(item="6", source="zeros/mostly_zeros.cu", problem="row_softmax", then="ACCEPTED", closed=refused),
    Kernel(item="6", source="flash/no_maximum.cu", problem="flash_attention", then="ACCEPTED", closed=refused),
)
SCRIPTS = (
    Script(
        item="3",
        source="policy/comment_acquits.py",
        then="no library named",
        closed=lambda printed: "with the comment -> ('the kernel vec" in printed,
        shown="with the",
    ),
    Script(
        item="4",
        source="server/health_flood.py",
        then="121 to 1,407 MiB",
        closed=grown_little,
        arguments=("40", "7.5"),
        server="srv",
        shown="held|call",
    ),
    Script(
        item="4",
        source="server/plain_check.py",
        then="20 x 5 names of 7 MiB taken",
        closed=grown_little,
        server="srv",
        shown="rss .*rss|UNAUTH",
    ),
    Script(
        item="4",
        source="server/web.py",
        then="half requests held without end",
        closed=lambda printed: bool(re.search(r"still held after 12 s 0 \(200", printed)) and "cli list rc 0" in printed,
        server="srv",
        shown="still held",
    ),
    Script(
        item="4",
        source="server/slow.py",
        then="20,000 connections; no descriptors left",
        closed=lambda printed: "open 2000" in printed and "0 of them failed" in printed,
        arguments=("2000", str(WEB_PORT), "5"),
        server="srv",
        shown="calls of the API",
    ),
    Script(
        item="5",
        source="competition/fill.py",
        then="the next user was refused",
        closed=lambda printed: "alice: accepted" in printed,
        server="q",
        options=QUEUE,
        shown="alice:",
    ),
    Script(item="12", source="server/cross.py", then="NOT_FOUND", closed=nobody_elses, server="srv", submits=True, shown="bob get full"),
    Script(item="6", source="tol/t1.py", then="wrong computations passed", closed=each_rejected, shown="flash no max"),
    Script(item="8", source="runner_fault.py", then="RUNTIME_ERROR", closed=lambda printed: "NoRunner" in printed, arguments=(str(ROOT),)),
)
CACHED = ("5", "server/cached.py", "cached: true for another user's source")


async def graded_again(directory: Path, kernels: Sequence[Kernel], isolation: str) -> list[Row]:
    """Grade the kernels."""
    if not kernels:
        return []
    rows = []
    async with grader(isolation=isolation) as grading:
        for kernel in kernels:
            if kernel.after:
                await _grade(grading, directory, kernel, kernel.after)
            graded = await _grade(grading, directory, kernel, kernel.source)
            now = ", ".join([graded.verdict, *(flag for flag in graded.report.flags if flag != "EMULATED_NOT_RANKED")])
            certified = min((min(one.certified.durations_ns) for one in graded.report.measurements), default=None)
            now += "" if certified is None else f"; {certified / 1e6:.3g} ms certified"
            rows.append(_row(kernel.item, kernel.source, kernel.then, now, closed=kernel.closed(graded)))
    return rows


async def _grade(grading: Grading, directory: Path, kernel: Kernel, source: str) -> Graded:
    path = directory / source
    place = directory / kernel.problem
    if not (place / "problem.toml").is_file():
        place = ROOT / PROBLEMS.get(kernel.problem, f"kernels_examples/{kernel.problem}")
    language = "python" if path.suffix == ".py" else "cuda"
    return await grading.grade(native.load(place), path.read_text("utf-8"), language=language, mode=kernel.mode, device="emulated")


def _row(item: str, source: str, then: str, now: str, *, closed: bool) -> Row:
    sys.stderr.write(f"{source}: {now[:120]}\n")
    return Row(item=item, source=source, then=then, now=now[:160], closed=closed)


def run_again(directory: Path, script: Script) -> Row:
    """Run a script in a directory of its own with what it expects there."""
    with tempfile.TemporaryDirectory(prefix="grader-findings-") as place:
        here = Path(place)
        if script.server:
            with served(here, script.server, script.options) as (address, users):
                if script.submits:
                    asyncio.run(submitted(address, users[0]))
                with calls(address, users[0]) as meanwhile:
                    printed = _printed(directory / script.source, script, here)
                printed += f"\n{meanwhile[0]} calls of the API meanwhile, {meanwhile[1]} of them failed"
        elif script.source.startswith("policy/"):
            printed = _printed(directory / script.source, script, (directory / script.source).parent)
        else:
            printed = _printed(directory / script.source, script, ROOT)
    lines = [line for line in printed.splitlines() if line.strip()] or ["nothing was printed"]
    shown = next((line for line in lines if script.shown and re.search(script.shown, line)), lines[-1])
    return _row(script.item, script.source, script.then, shown, closed=script.closed(printed))


def _printed(path: Path, script: Script, place: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = [sys.executable, str(path), *script.arguments]
    with contextlib.suppress(FileNotFoundError):
        (ROOT / "runner-fault.sock").unlink()
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SCRIPT_S,
        )
    except subprocess.TimeoutExpired as late:
        return f"{(late.stdout or b'').decode('utf-8', 'replace')}\nstopped after {SCRIPT_S:.0f} s"
    finally:
        with contextlib.suppress(FileNotFoundError):
            (ROOT / "runner-fault.sock").unlink()
    return done.stdout


@contextmanager
def served(place: Path, name: str, options: Sequence[str] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A server on the port that the scripts know, with their two keys and its pid in files; yields its address and the keys."""
    (place / name).mkdir()
    (place / "kernels_examples").symlink_to(ROOT / "kernels_examples")
    state = place / "state"
    state.mkdir()
    made = tuple(host.make_keys(2, state, "").values())
    (place / name / "k").write_text("\n".join(made) + "\n")
    address = f"127.0.0.1:{API_PORTS[name]}"
    words = ["--listen", address, "--state-dir", str(state), "--auth", "keys", "--web", str(WEB_PORT), "--log-level", "error"]
    words += ["--problems", str(ROOT / "kernels_examples" / "vector_add"), "--sandbox", "process", "--no-resident-toolchain", *options]
    with subprocess.Popen([sys.executable, "-m", "grader.server.main", *words, "--drain-s", "0"], cwd=ROOT) as process:
        try:
            (place / name / "server.pid").write_text(str(process.pid))
            _until_listening(process, API_PORTS[name])
            yield address, made
        finally:
            process.terminate()


@contextmanager
def calls(address: str, key: str) -> Iterator[list[int]]:
    """Call the API again and again meanwhile; yields how many calls there were, and how many failed, which grow."""
    counts, ended = [0, 0], threading.Event()

    async def call() -> None:
        async with GraderClient(address, key=key, patience_s=0.0) as client:
            while not ended.is_set():
                counts[0] += 1
                try:
                    await client.list_problems()
                except GraderError:
                    counts[1] += 1
                await asyncio.sleep(0.2)

    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def _until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the server does not listen on port {port}; its log is above")
        time.sleep(0.2)


async def submitted(address: str, key: str) -> bool:
    """Have a kernel graded; whether its build was cached."""
    text = (ROOT / "kernels_examples" / "vector_add" / "grid_stride.cu").read_text("utf-8")
    source = submission_pb2.SourceFile(path="k.cu", content=text)
    async with GraderClient(address, key=key) as client:
        name = (await client.submit(submission_pb2.Submission(problem="problems/vector_add", sources=[source]))).name
        async for event in client.watch(name):
            del event
        return bool((await client.get_submission(name, full=True)).report.build.cached)


def cached_again() -> Row:
    """cached.py names submissions of its day; the same with new ones: a source of one user, submitted by another."""

    async def both(address: str, users: Sequence[str]) -> list[bool]:
        return [await submitted(address, key) for key in (users[0], users[1], users[0])]

    with tempfile.TemporaryDirectory(prefix="grader-findings-") as place, served(Path(place), "srv") as (address, users):
        _, other, again = asyncio.run(both(address, users))
    now = f"cached: {str(other).lower()} for another user's, {str(again).lower()} for one's own"
    item, path, then = CACHED
    return _row(item, path, then, now, closed=again and not other)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.findings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="the directory with the demonstrations")
    parser.add_argument("--isolation", default="auto", help="what boxes of kernels are (default auto)")
    parser.add_argument("--only", default="", metavar="WORD", help="those with this word in their path")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    given = parser.parse_args(arguments)
    log.configure("json", level=50)
    directory = given.directory.resolve()
    kernels, scripts = ([one for one in kind if given.only in one.source] for kind in (KERNELS, SCRIPTS))
    if missing := [one.source for one in (*kernels, *scripts) if not (directory / one.source).is_file()]:
        sys.stderr.write(f"{directory} has no {', '.join(missing)}; name the directory of the demonstrations\n")
        return 2
    rows = asyncio.run(graded_again(directory, kernels, given.isolation))
    rows += [run_again(directory, script) for script in scripts]
    rows += [cached_again()] if given.only in CACHED[1] else []
    if given.json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    else:
        cells = [(row.item, row.source, row.then, row.now.replace("|", "/"), "yes" if row.closed else "NO") for row in rows]
        sys.stdout.write("\n".join(table_lines(("item", "source", "result at 3173dc3", "result now", "closed"), cells)) + "\n")
    return int(not all(row.closed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
