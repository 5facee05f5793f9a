"""Hundreds of right and wrong kernels in one call of Python, as a training loop has them, on the process's own server.

`GRADER_CANDIDATES=512 GRADER_SHOW=1 python -m pytest -n 0 -s tests/e2e/test_many_candidates.py` prints the figures. CPU time leaves out
boxes of Docker, which are not below this process: `DOCKER_HOST=unix:///none` makes it take bubblewrap.
"""

import json
import os
import resource
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT
from tests.requirements import skip_without_extensions

COUNT = int(os.environ.get("GRADER_CANDIDATES", "10"))
CANDIDATE_S = 60.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + CANDIDATE_S * COUNT)]

PROGRAM = """
import asyncio, json, re, resource, sys, time
from pathlib import Path
import grader
from grader.python.background import background
from tests.gpu.test_cascade import candidates, unique

RUN = time.time_ns()  # so that no earlier run has built it

async def graded(number, item):
    name = item.name.rpartition("/")[2]
    try:
        result = await grader.agrade({name: unique(item, f"{RUN} {number}").source}, item.problem.problem_id, device="emulated")
    except grader.Unscored as error:
        return [item.name, item.expected[0], f"unscored: {error}"]
    return [item.name, item.expected[0], f"{result.verdict} {result.reason}".strip()]

async def all_at_once():
    return await asyncio.gather(*(graded(number, item) for number, item in enumerate(candidates(int(sys.argv[1])))))

begin_s = time.monotonic()
ends = asyncio.run(all_at_once())
duration_s = time.monotonic() - begin_s
server = Path(f"/proc/{background()._own._process.pid}/status").read_text()
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "ends": ends, "seconds": duration_s, "client MB": own.ru_maxrss // 1024, "client CPU s": own.ru_utime + own.ru_stime,
    "server MB": int(re.search(r"VmHWM:\\s+(\\d+)", server)[1]) // 1024,
}))
"""


def test_every_candidate_gets_its_verdict(environment, tmp_path):
    """None fails or is unscored, however many there are; three in five are wrong."""
    script = tmp_path / "loop.py"
    script.write_text(PROGRAM)
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(script), str(COUNT)]
    ended = subprocess.run(command, cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    skip_without_extensions(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    ends, seconds, end = figures.pop("ends"), figures.pop("seconds"), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    if os.environ.get("GRADER_SHOW"):
        print(f"\n{COUNT} candidates, {sum(end == 'ACCEPTED' for *_, end in ends)} accepted: {60 * COUNT / seconds:.1f} a minute,")
        print(f"{cpu_s / COUNT:.1f} CPU s each, {seconds:.0f} s in all; {figures}")
    assert len(ends) == COUNT
    assert [item for item in ends if not item[2].startswith(item[1])] == []
