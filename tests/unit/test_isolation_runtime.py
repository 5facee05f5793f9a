"""Boxes and directories that a server leaves behind."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from grader.config import Settings
from grader.isolation import IsolationBroken, processes
from grader.isolation.directories import box_output, leave_runtime, run_directory, sweep_runtime
from grader.isolation.host_box import HostBox
from grader.isolation.settings import BoxSettings
from grader.server import wiring

KILLER = """
import subprocess
from grader.isolation.processes import end_all
inside = subprocess.Popen(["sleep", "600"], start_new_session=True)
looks = iter([{0, inside.pid}, {0}, set()])
end_all(lambda: next(looks))
print(inside.wait())
"""


def test_a_process_that_began_while_others_were_listed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its uid: who forked it may have ended, and it may have changed its environment."""
    begun: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(processes, "descendants", lambda *_: begun.append(subprocess.Popen(["sleep", "600"])) or set())
    monkeypatch.setattr(processes, "labelled", lambda **_: {})
    launch = SimpleNamespace(uid=os.geteuid(), environment={processes.BOX_VARIABLE: "b", processes.SERVER_VARIABLE: "s"})
    box = SimpleNamespace(_process=SimpleNamespace(pid=os.getpid()), _launch=launch, _has_own_uid=True)
    try:
        members = HostBox._members(cast("HostBox", box))
        assert begun[0].pid in members
    finally:
        for process in begun:
            process.kill()
            process.wait()


def test_a_large_environment_is_not_read_whole() -> None:
    """A box's processes have megabytes each, and the end of every other box would read them. The label comes first."""
    large = {f"LARGE_{number}": "x" * 100_000 for number in range(20)}
    environment = {processes.BOX_VARIABLE: "large", **large}
    with subprocess.Popen(["cat"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"  # it has its environment only once it runs
        values = processes.labelled(**{processes.BOX_VARIABLE: "large"})[process.pid].values()
        process.kill()
    assert sum(map(len, values)) < 1 << 16


def test_a_server_that_ends_leaves_no_directory(tmp_path: Path) -> None:
    settings = BoxSettings(state_id="a", runtime_dir=tmp_path / "runtime")
    with box_output(settings, limit_bytes=1 << 20) as place:
        (place / "artifact").write_bytes(b"1")
    (settings.runtime_dir / "etc").mkdir()
    (settings.runtime_dir / "etc" / "passwd").write_text("")
    leave_runtime(settings)
    assert not settings.runtime_dir.exists()
    leave_runtime(settings)


def test_what_could_not_be_cleared_stays_for_the_next_server(tmp_path: Path) -> None:
    first, second = (BoxSettings(state_id="a", runtime_dir=tmp_path / "runtime") for _ in range(2))
    stray = run_directory(first) / "link-1"
    stray.mkdir()
    leave_runtime(first)
    assert stray.exists()
    run_directory(second)
    leave_runtime(second)
    assert stray.exists() and not (second.runtime_dir / f"run-{second.run_id}").exists()
    sweep_runtime(second)
    leave_runtime(second)
    assert not second.runtime_dir.exists()


async def test_a_server_that_does_not_start_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its isolation is away."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    (tmp_path / "t").mkdir()
    settings = Settings(state_dir=tmp_path / "state", sandbox="docker", resident_toolchain=False)
    with pytest.raises(IsolationBroken):
        async with wiring.local(settings):
            pass
    assert list((tmp_path / "t").iterdir()) == []


async def test_a_toolchain_that_can_not_be_looked_through_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a server starts that has to copy it, here because a path is too long. `run` prints such an error without a traceback."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for _ in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    settings = Settings(state_dir=tmp_path / "state", device="emulated", resident_toolchain=True)
    with pytest.raises(IsolationBroken, match=r"kept in memory: .*File name too long.*start again"):
        async with wiring.local(settings):
            pass


def test_a_process_of_another_pid_namespace_is_not_taken_for_our_own_group() -> None:
    """A cgroup lists it as 0, and a signal to 0 is for all of the caller's group. The control, in the same list, is killed."""
    ended = subprocess.run([sys.executable, "-c", KILLER], check=False, start_new_session=True, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "-9\n"), ended.stderr


@pytest.mark.parametrize(("directory", "module"), [("grader/isolation", "stage"), (".", "sandbox.fork_init")])
def test_what_starts_a_box_imports_little(directory: str, module: str) -> None:
    """Each is a Python that starts for every box, whose imports were most of its time."""
    program = f"import sys; sys.path.insert(0, {directory!r}); import {module}; print(*sys.modules)"
    start = [sys.executable, "-I", "-S", "-B", "-c", program]
    loaded = subprocess.run(start, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout.split()
    assert "ctypes" in loaded and not {"json", "pathlib", "re", "socket", "subprocess", "typing"} & set(loaded)
