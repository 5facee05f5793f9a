"""A hostile reference in `problems check`: what it tries fails in the check's box, on each safe isolation.

The control of each is the same problem with `--trusted` (`box=None`): there the attack gets through.
"""

import asyncio
import getpass
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from grader.formats import native
from grader.isolation import processes
from grader.isolation.launch import STATE_LABEL
from grader.isolation.settings import BoxSettings
from grader_extensions.problem_check import admission
from grader_extensions.problem_check.check_box import CheckBox, read_limits
from sandbox.protocol import wire
from tests.containment.conftest import HANG_S, SAFE, usable

pytestmark = pytest.mark.slow

TOML = """
name = "hostile"
title = "Hostile"
axes = ["n"]
inputs = [{ name = "x", shape = ["n"] }]
outputs = [{ name = "y", shape = ["n"] }]
workloads = [{ id = "n8", axes = { n = 8 } }]
"""
FAILED = wire.FindingOutcome.FAILED
# Raised by the reference, so that its message comes back as a finding.
THROUGH, DENIED = "GOT THROUGH", "WAS DENIED"
ATTEMPT = """
import ctypes, os, signal, socket, sys, time, torch

def attack():
{attack}

def reference(x):
    try:
        said = attack()
    except (OSError, MemoryError, RuntimeError) as error:
        raise ValueError("WAS DENIED " + type(error).__name__)
    raise ValueError("GOT " + "THROUGH " + str(said))
"""


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in SAFE])
async def make_box(request, cage_checks, tmp_path):
    """Make the box of a check on each safe isolation in turn, with the limits as they are or others."""
    await usable(request.param, cage_checks)
    with tempfile.TemporaryDirectory(prefix="grader-problem-check-") as directory:
        Path(directory).chmod(0o711)
        settings = BoxSettings(state_id=f"problemcheck{os.getpid()}", runtime_dir=Path(directory) / "runtime")
        isolation = SAFE[request.param](settings)
        yield lambda **changes: CheckBox(isolation, settings, replace(read_limits(), **changes))
        await isolation.close()


def hostile(tmp_path, attack, template=ATTEMPT):
    directory = tmp_path / "hostile"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "problem.toml").write_text(TOML)
    (directory / "reference.py").write_text(template.replace("{attack}", textwrap.indent(textwrap.dedent(attack).strip(), "    ")))
    return native.load(directory)


async def messages_of(problem, box, **options):
    """Return all that was found, as one text."""
    checked = await admission.check(problem, box=box, **options)
    assert not checked.admitted
    return " ".join(finding.message for finding in checked.findings)


async def denied_in_box_only(problem, box):
    boxed = await messages_of(problem, box)
    assert DENIED in boxed and THROUGH not in boxed
    assert THROUGH in await messages_of(problem, None)


async def test_it_reads_no_file_of_the_operator(make_box, tmp_path):
    """Neither /etc/shadow nor a file that only the operator's user may read."""
    secret = tmp_path / "secret"
    secret.write_text("the operator's")
    secret.chmod(0o600)
    await denied_in_box_only(hostile(tmp_path, f"return open({str(secret)!r}).read()"), make_box())
    if os.access("/etc/shadow", os.R_OK):
        await denied_in_box_only(hostile(tmp_path, "return len(open('/etc/shadow').read())"), make_box())


async def test_it_does_not_see_the_operator_s_home_and_environment(make_box, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_TEST_SECRET", "the operator's")
    home = Path.home()
    attack = f"return os.listdir({str(home)!r}), os.environ.get('GRADER_TEST_SECRET') or os.open('/nonexistent', 0)"
    assert getpass.getuser() and home.is_dir()
    await denied_in_box_only(hostile(tmp_path, attack), make_box())


async def test_it_writes_nothing_outside(make_box, tmp_path):
    """In a directory that every user may write to."""
    with tempfile.TemporaryDirectory(prefix="grader-open-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o777)
        mark = Path(directory, "mark")
        problem = hostile(tmp_path, f"return open({str(mark)!r}, 'w').write('x')")
        assert DENIED in await messages_of(problem, make_box()) and not mark.exists()
        assert THROUGH in await messages_of(problem, None) and mark.exists()


async def test_it_reaches_no_network(make_box, tmp_path):
    """A listener on this host's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        attack = f"return socket.create_connection(('127.0.0.1', {port}), 5).getsockname()"
        await denied_in_box_only(hostile(tmp_path, attack), make_box())
        listener.setblocking(False)
        with ExitStack() as accepted:  # the control's alone
            accepted.callback(listener.accept()[0].close)
            with pytest.raises(BlockingIOError):
                listener.accept()


async def test_it_does_not_signal_the_operator_s_processes(make_box, tmp_path):
    """Not even to ask whether there is one."""
    await denied_in_box_only(hostile(tmp_path, f"return os.kill({os.getpid()}, 0)"), make_box())


FORKS = """
children = []
try:
    while len(children) < 60:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
return len(children)
"""


async def test_its_processes_are_bounded(make_box, tmp_path):
    """Fewer than the limit of a check, so that the control is cheap: the box has 40."""
    await denied_in_box_only(hostile(tmp_path, FORKS), make_box(process_count=40))


async def test_its_memory_is_bounded(make_box, tmp_path):
    """1.5 GiB in a box of 1 GiB, by mmap: RLIMIT_DATA of the check itself does not count it all, the box does."""
    attack = """
    import mmap
    area = mmap.mmap(-1, 3 << 29, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    for at in range(0, 3 << 29, 4096):
        area[at] = 1
    return "memory"
    """
    problem = hostile(tmp_path, attack)
    boxed = await messages_of(problem, make_box(memory_bytes=1 << 30))
    assert THROUGH not in boxed and ("more memory than the box has" in boxed or "ended with" in boxed)
    assert THROUGH in await messages_of(problem, None)


async def test_its_output_is_bounded(make_box, tmp_path):
    """Endless output ends the box; without it, it only ends with the check's time."""
    template = "import os\n\ndef reference(x):\n    while True:\n        os.write(2, b'x' * 65536)\n"
    problem = hostile(tmp_path, "", template)
    assert "prints without end" in await messages_of(problem, make_box())
    assert "it was not done within 1 s" in await messages_of(problem, None, budget_s=1.0)


FORGED = """
import os
from sandbox.protocol import wire

def reference(x):
    finding = wire.Finding(check="zeros", workload_id="{workload}", outcome=wire.FindingOutcome.PASSED, message="\\x1b]0;owned\\x07")
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            os.write(descriptor, wire.encode(finding) + wire.encode(wire.Finished(job_id="check")))
        except OSError:
            pass
    os._exit(0)
"""


async def test_it_may_lie_about_itself_and_no_more(make_box, tmp_path):
    """A reference that writes its own report is admitted by it, in a box or not: it is the author's word for the author's problem.
    What it writes is shown without control characters; the control shows that they were in it."""
    problem = hostile(tmp_path, "", FORGED.replace("{workload}", "n8"))
    boxed, trusted = await admission.check(problem, box=make_box()), await admission.check(problem)
    for checked in (boxed, trusted):
        assert checked.admitted and [finding.check for finding in checked.findings] == ["zeros"]
        assert [finding.message for finding in checked.findings] == [r"\x1b]0;owned\x07"]


async def test_it_does_not_report_on_another_problem(make_box, tmp_path):
    """A workload that the problem does not have is no report; the control names one that it has."""
    forged = [hostile(tmp_path / name, "", FORGED.replace("{workload}", name)) for name in ("of-another", "n8")]
    assert [(await admission.check(problem, box=make_box())).admitted for problem in forged] == [False, True]


async def test_a_symlink_for_a_report_is_not_followed(make_box, tmp_path):
    """In {out} it may do what it likes; the host takes a plain file only."""
    template = """
import os

def reference(x):
    os.unlink("/grader/out/findings")
    os.symlink("/etc/passwd", "/grader/out/findings")
    os._exit(0)
"""
    report = await admission.check(hostile(tmp_path, "", template), box=make_box())
    assert not report.admitted and [finding.check for finding in report.findings] == ["ends"] and "root" not in report.findings[0].message


def boxes_of(environment, name):
    """Return what is left of checks: containers and processes that carry the runtime directory's label."""
    directory = Path(environment["TMPDIR"], f"grader-check-{os.geteuid()}")
    state_id = f"check{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]}"
    if name == "docker":
        return [container.id for container in docker.from_env().containers.list(all=True, filters={"label": f"{STATE_LABEL}={state_id}"})]
    return list(processes.strangers(BoxSettings(state_id=state_id, runtime_dir=directory)))


@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in SAFE])
async def test_a_check_that_is_killed_leaves_no_box_for_long(cage_checks, tmp_path, name):
    """Bubblewrap's ends with the command, a container's with the next check, which unmounts its directory. The control: it was there."""
    await usable(name, cage_checks)
    hostile(tmp_path, "", "def reference(x):\n    while True:\n        pass\n")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "grader.cli.main", "problems", "check", "--sandbox", name, str(tmp_path / "hostile")]
    with subprocess.Popen([*command, "--budget", "600"], env=environment, stdout=subprocess.DEVNULL) as asking:
        try:
            async with asyncio.timeout(HANG_S):
                while not boxes_of(environment, name):
                    await asyncio.sleep(0.1)
        finally:
            asking.kill()
    if name == "docker":
        assert boxes_of(environment, name)
    hostile(tmp_path, "", "def reference(x):\n    return x * 2 + 1\n")
    assert (await asyncio.to_thread(subprocess.run, command, env=environment, stdout=subprocess.DEVNULL, check=False)).returncode == 0
    async with asyncio.timeout(HANG_S):
        while boxes_of(environment, name):
            await asyncio.sleep(0.1)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text("utf-8")


async def test_an_honest_problem_is_admitted_in_the_box(make_box, tmp_path):
    """And found the same as without: the control of all refusals here."""
    problem = hostile(tmp_path, "", "def reference(x):\n    print('noise')\n    return x * 2 + 1\n")
    boxed, trusted = await admission.check(problem, box=make_box()), await admission.check(problem)
    assert trusted.admitted and {finding.check for finding in boxed.findings} == {finding.check for finding in trusted.findings}
    assert boxed.admitted and all(finding.outcome is not FAILED for finding in boxed.findings)


@pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in SAFE])
async def test_checks_of_one_user_run_at_the_same_time(cage_checks, tmp_path, name):
    """The first one sweeps, and each that ends removes what no other needs."""
    await usable(name, cage_checks)
    hostile(tmp_path, "", "def reference(x):\n    return x * 2 + 1\n")
    command = [sys.executable, "-m", "grader.cli.main", "problems", "check", "--sandbox", name, str(tmp_path / "hostile")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    checks = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
    outputs = [check.communicate(timeout=2 * HANG_S)[0] for check in checks]
    assert [check.returncode for check in checks] == [0] * 3, outputs
    assert list(tmp_path.glob("grader-check-*")) == []
