"""The server's handle on one judge: starts it, sends it jobs, reads its facts, and starts it anew when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import structlog

from grader.errors import JudgeBroken
from grader.isolation import GpuAccess
from sandbox.protocol import wire

START_S, CUDA_START_S = 120.0, 300.0  # on a GPU it imports torch, warms do_bench up and measures what the device can do
SILENCE_S, CUDA_SILENCE_S = 120.0, 400.0  # next to a trial's own limit: reference, comparison, null runs; torch.compile's first time
CHECK_S = 60.0
END_S = 30.0  # a process that a sick driver holds may not even die
# Of glibc (mallopt(3)): a tensor gets the pages of one that has gone. To get new ones took an eighth of the time of verifying.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 33)}
PACKAGE_DIR = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "sandbox.judge")

log = structlog.get_logger()


class JudgeProcess:
    """A judge for one lane. Use `judge`, `prepare` and `check` for one thing at a time. gpu: the one GPU that it sees; None on the emulated
    device. cache_dir: where what is compiled for baselines is kept from one server to the next; None: nowhere."""

    def __init__(
        self,
        device_kind: str,
        gpu: GpuAccess | None = None,
        cache_dir: Path | None = None,
        *,
        command: Sequence[str] = COMMAND,
        check_s: float = CHECK_S,
    ) -> None:
        self._command, self._check_s = command, check_s
        self._kind, self._gpu, self._cache_dir = device_kind, gpu, cache_dir
        self._process: asyncio.subprocess.Process | None = None
        self._environment: wire.Environment | None = None
        self._starting = asyncio.Lock()
        self._silence_s = SILENCE_S if gpu is None else CUDA_SILENCE_S

    @property
    def running(self) -> bool:
        """Return whether a job would not have to wait for it to start."""
        return self._process is not None and self._process.returncode is None and self._environment is not None

    async def environment(self) -> wire.Environment:
        """Return the judge's environment; start the judge if it is not running."""
        async with self._starting:
            if not self.running:
                await self.close()  # what a cancelled start left
                await self._start()
            assert self._environment is not None
            return self._environment

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The facts of one job; JudgeBroken where the judge dies or falls silent, and then it is started anew for the next."""
        return self._answers(job, self._silence_s + wire.WAIT_FACTOR * (job.load_s + 3 * job.problem.trial_s))

    async def prepare(self, job_id: str, problem: wire.ProblemSpec) -> None:
        """Compile and time the baselines of a problem, for minutes where there are many; JudgeBroken as in `judge`, and where the problem
        can't be loaded. Starts the judge if it is not running."""
        async with aclosing(self._answers(wire.Prepare(job_id=job_id, problem=problem), self._silence_s)) as facts:
            async for fact in facts:
                if isinstance(fact, wire.Broken):
                    raise JudgeBroken(fact.message)

    async def check(self, job_id: str) -> wire.Health:
        """How the device is, now that nothing of this job is left; starts the judge if it is not running."""
        async with aclosing(self._answers(wire.Check(job_id=job_id), self._check_s)) as facts:
            fact = await anext(facts)
        if isinstance(fact, wire.Health) and fact.job_id == job_id:
            return fact
        await self.close()
        raise JudgeBroken(fact.message if isinstance(fact, wire.Broken) else f"the judge answered a check with {type(fact).__name__}")

    async def _answers(self, message: wire.Job | wire.Prepare | wire.Check, limit_s: float) -> AsyncGenerator[wire.Fact, None]:
        """Send a message, and yield what the judge says to it, up to the last fact of that. limit_s: how long it may be silent."""
        await self.environment()
        finished = False
        try:
            process = self._process
            assert process is not None and process.stdin is not None
            try:
                process.stdin.write(wire.encode(message))
                await process.stdin.drain()
            except (BrokenPipeError, ConnectionResetError) as error:
                raise JudgeBroken(f"the judge went away: {error}") from None
            while not finished:
                fact = await self._read(process, limit_s)
                if isinstance(fact, wire.Broken) and fact.device_lost:
                    await self.close()  # its context is gone, and a process gets no second one
                finished = isinstance(fact, (wire.Finished, wire.Restart, wire.Broken, wire.Health))
                yield fact
        finally:
            if not finished:  # cancelled or broken in the middle of a job: what it would still say belongs to nobody
                await self.close()

    async def close(self) -> None:
        """End the process."""
        process, self._process, self._environment = self._process, None, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                log.error("judge_does_not_end", device_kind=self._kind, pid=process.pid)

    async def _start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            self._kind,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=wire.LINE_LIMIT_BYTES,
            env=judge_environment(os.environ, self._gpu, self._cache_dir),
            umask=0o022,  # what Triton leaves in triton_dir is read by boxes
            start_new_session=True,
        )
        self._process = process
        fact = await self._read(process, START_S if self._gpu is None else CUDA_START_S)
        if isinstance(fact, wire.Broken):
            raise JudgeBroken(fact.message)
        if not isinstance(fact, wire.Environment):
            raise JudgeBroken(f"the judge began with {type(fact).__name__}")
        self._environment = fact
        log.info("judge_started", device_kind=self._kind, pid=process.pid, device=fact.device, device_uuid=fact.device_uuid)

    async def _read(self, process: asyncio.subprocess.Process, limit_s: float) -> wire.Fact:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await process.stdout.readline()
        except TimeoutError:
            raise JudgeBroken(f"the judge said nothing for {limit_s:.0f} s") from None
        except ValueError:  # how readline says that there is no end of the line within the limit
            raise JudgeBroken(f"the judge said a line of over {wire.LINE_LIMIT_BYTES} bytes") from None
        if not line:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
            raise JudgeBroken(f"the judge ended with {process.returncode}")
        try:
            fact: wire.Fact = wire.decode(line)
        except wire.WireError as error:
            raise JudgeBroken(f"the judge said what is no fact: {error}") from None
        return fact


def judge_environment(environment: Mapping[str, str], gpu: GpuAccess | None, cache_dir: Path | None) -> dict[str, str]:
    """A judge's environment variables: the server's, and the one GPU that it may see."""
    carried = (environment["PYTHONPATH"],) if environment.get("PYTHONPATH") else ()
    variables = {**environment, "PYTHONPATH": os.pathsep.join((str(PACKAGE_DIR), *carried)), "PYTHONUNBUFFERED": "1"}
    if gpu is None:
        variables = KEEP_FREED_MEMORY | variables
    else:
        variables |= {"CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TRITON_CACHE_DIR": str(gpu.triton_dir)}
        variables["GRADER_DEVICE_KNOWN"] = f"{gpu.triton_dir}.known"  # next to what boxes see
        if cache_dir is not None:
            variables["GRADER_COMPILE_CACHE"] = str(cache_dir)
    return variables
