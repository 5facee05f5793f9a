"""The child process that `grader.grade` starts: it ends with its caller."""

import select
import subprocess
import sys

import pytest

END_S = 120.0
CHILD = """
from grader.python import serve

async def wait(requests, ready, answer):
    ready.set()
    print(flush=True)
    await requests.get()

serve._serve = wait
serve.main()
"""
CALLER = """
import subprocess, sys
from grader.python.background import OwnServer

arguments = OwnServer()._command[4:]
late = sys.argv[2] == "late"
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *arguments], stderr=subprocess.PIPE if late else None)
if late:
    child.stderr.read(1)
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_the_server_ends_with_its_caller_though_another_process_has_the_pipe(when):
    """As a worker has that the caller forked: here it is the test that can still write. Early: before the server looks."""
    command = [sys.executable, "-c", CALLER, CHILD, when]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.wait() == 0
        ended = select.select([caller.stdout], [], [], END_S)[0]  # the server has it, too
        caller.stdin.close()
    assert ended
