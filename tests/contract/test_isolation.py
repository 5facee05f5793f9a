"""Promises of every isolation."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from grader.isolation import BoxSpec, NoIsolationWorks, Purpose, launch
from grader.isolation.directories import box_output, hold_slot, shared_slot_directory
from grader.isolation.docker import DockerIsolation
from grader.isolation.pickup import pick_up
from grader.isolation.select import choose, make
from grader.isolation.settings import BoxSettings
from sandbox.protocol.wire import BoxCause
from tests import fakes
from tests.containment.inventory import marked
from tests.waiting import until

LIMITS = replace(fakes.LIMITS, process_count=32, file_bytes=1 << 20, tmp_bytes=4 << 20)


def spec_of(slot, code, *, marker="", purpose=Purpose.BUILD, limits=LIMITS, **changes):
    box_id = f"t{os.getpid()}-{time.monotonic_ns()}"
    source = f"# {marker} {box_id}\nimport os, signal, sys, time\n" + textwrap.dedent(code)
    return BoxSpec(
        box_id=box_id,
        purpose=purpose,
        argv=("{python}", "-I", "-S", "-c", source),
        limits=limits,
        slot=slot,
        **changes,
    )


async def ending_of(isolation, spec):
    """How it ended, once nothing of it is left."""
    async with isolation.start(spec) as box:
        ended = await box.wait()
    assert marked(spec.box_id) == []
    return ended


@pytest.fixture
def marker(place):
    return f"marker-{place.name}"


@pytest.mark.parametrize(
    ("code", "cause", "exit_code", "number", "output"),
    [
        ("sys.exit(7)", BoxCause.EXITED, 7, None, b""),
        ("os.kill(os.getpid(), signal.SIGSEGV)", BoxCause.SIGNALLED, None, signal.SIGSEGV, b""),
        ("os.write(1, b'one '); os.write(2, b'two')", BoxCause.EXITED, 0, None, b"one two"),
        ("print(repr(os.read(0, 1)))", BoxCause.EXITED, 0, None, b"b''\n"),
    ],
    ids=["exit code", "signal", "both streams", "no input"],
)
async def test_an_end_and_the_output_are_reported(isolation, slot, code, cause, exit_code, number, output):
    ended = await ending_of(isolation, spec_of(slot, code))
    assert (ended.cause, ended.exit_code, ended.signal, ended.output) == (cause, exit_code, number, output)


async def test_a_flood_ends_the_box_and_its_head_is_kept(isolation, slot):
    ended = await ending_of(isolation, spec_of(slot, "os.write(1, b'first')\nwhile True: os.write(1, b'x' * 65536)"))
    assert ended.cause is BoxCause.OUTPUT_LIMIT
    assert ended.output.startswith(b"firstxxx") and len(ended.output) == 64 * 1024


@pytest.mark.timing
async def test_a_sleeper_ends_at_the_wall_and_is_removed_at_once(isolation, slot):
    """Not much later than it was told to, and without the grace that an engine gives."""
    async with isolation.start(spec_of(slot, "time.sleep(600)", limits=replace(LIMITS, wall_s=0.7))) as box:
        ended = await box.wait()
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert 0.7e9 <= ended.wall_ns < 3e9


async def test_the_wall_stands_even_if_nobody_waits(isolation, slot, marker):
    async with isolation.start(spec_of(slot, "time.sleep(600)", marker=marker, limits=replace(LIMITS, wall_s=0.3))) as box:
        await asyncio.sleep(2.0)
        await until(lambda: not marked(marker))
        ended = await box.wait()
    assert ended.cause is BoxCause.WALL_LIMIT and ended.wall_ns >= 0.3e9


async def test_a_spinner_meets_the_processor_limit(isolation, slot):
    ended = await ending_of(isolation, spec_of(slot, "while True: pass", limits=replace(LIMITS, cpu_s=1.0, wall_s=30.0)))
    assert (ended.cause, ended.signal) in ((BoxCause.WALL_LIMIT, signal.SIGXCPU), (BoxCause.SIGNALLED, signal.SIGKILL))


async def test_a_memory_bomb_ends_the_box(isolation, slot):
    code = "hoard = []\nfor _ in range(60): hoard.append(bytearray(os.urandom(1) * (8 << 20))); time.sleep(0.01)"
    ended = await ending_of(isolation, spec_of(slot, code))
    assert ended.cause is BoxCause.MEMORY_LIMIT
    assert ended.peak_memory_bytes is not None


async def test_a_fork_bomb_ends_and_leaves_nothing(isolation, slot):
    code = """
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(600)
    """
    ended = await ending_of(isolation, spec_of(slot, code))
    assert (ended.cause, ended.exit_code) in ((BoxCause.PROCESS_LIMIT, 1), (BoxCause.EXITED, 1)), ended


async def test_a_daemon_is_gone_after_leaving(isolation, slot):
    """Double fork, a session of its own, no descriptors, and a parent that has ended."""
    code = """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    print("left one behind")
    """
    ended = await ending_of(isolation, spec_of(slot, code))
    assert (ended.cause, ended.output) == (BoxCause.EXITED, b"left one behind\n")


async def test_a_daemon_that_holds_the_output_open_does_not_delay_the_end(isolation, slot):
    ended = await ending_of(isolation, spec_of(slot, "if os.fork() == 0: os.setsid(); time.sleep(600)\nprint('bye')"))
    assert (ended.cause, ended.output) == (BoxCause.EXITED, b"bye\n"), "it does not meet the wall, as the daemon would"


async def test_a_box_is_killed_once_and_says_so_twice(isolation, slot, marker):
    """A kill after the end changes nothing."""
    async with isolation.start(spec_of(slot, "print('up', flush=True); time.sleep(600)", marker=marker)) as box:
        first = await box.kill()
        assert await box.kill() == first == await box.wait()
    assert first.cause is BoxCause.KILLED and marked(marker) == []
    async with isolation.start(spec_of(slot, "sys.exit(3)")) as box:
        ended = await box.wait()
        assert await box.kill() == ended
    assert ended.exit_code == 3


@pytest.mark.parametrize("error", [nullcontext(), pytest.raises(ZeroDivisionError)], ids=["left", "error"])
async def test_leaving_ends_a_box_that_runs(isolation, slot, marker, error):
    """Also by an error of the caller's, which comes through."""
    with error:
        async with isolation.start(spec_of(slot, "time.sleep(600)", marker=marker)):
            await asyncio.sleep(0.3)
            if not isinstance(error, nullcontext):
                raise ZeroDivisionError
    assert marked(marker) == []


async def test_cancelling_the_caller_ends_the_box(isolation, slot, marker):
    async def hold():
        async with isolation.start(spec_of(slot, "time.sleep(600)", marker=marker)) as box:
            started.set()
            await box.wait()

    started = asyncio.Event()
    task = asyncio.create_task(hold())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marked(marker) == []


async def test_two_boxes_live_at_once_under_two_uids(isolation, slot):
    with hold_slot(shared_slot_directory()) as second_slot:
        async with (
            isolation.start(spec_of(slot, "time.sleep(0.5); print('a', os.getuid())")) as first,
            isolation.start(spec_of(second_slot, "time.sleep(0.5); print('b', os.getuid())")) as second,
        ):
            endings = await asyncio.gather(first.wait(), second.wait())
            assert [ended.output[:2] for ended in endings] == [b"a ", b"b "]
            if isolation.SAFE and os.geteuid() == 0:
                assert first.uid != second.uid
                assert endings[0].output.split()[1] == str(first.uid).encode()


async def test_a_socket_that_appears_in_the_link_directory_is_reachable(isolation, slot, place):
    """The judge binds its socket after the box has started."""
    link = place / "link"
    link.mkdir()
    code = """
    import socket
    peer = socket.socket(socket.AF_UNIX)
    for _ in range(3000):
        try:
            peer.connect(sys.argv[1])
            break
        except OSError:
            time.sleep(0.02)
    peer.sendall(b"hello from " + str(os.getuid()).encode())
    """
    spec = spec_of(slot, code, link_dir=link)
    with socket.socket(socket.AF_UNIX) as listener:
        async with isolation.start(replace(spec, argv=(*spec.argv, "{link}/judge.sock"))) as box:
            listener.bind(str(link / "judge.sock"))
            (link / "judge.sock").chmod(0o666)
            listener.listen(1)
            listener.setblocking(False)
            peer, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), 60)
            with peer:
                heard = await asyncio.get_running_loop().sock_recv(peer, 100)
            ended = await box.wait()
    assert heard == f"hello from {box.uid}".encode(), ended


async def test_sources_are_readable_and_an_artifact_is_picked_up(isolation, slot, settings, place):
    sources = place / "src"
    sources.mkdir()
    sources.chmod(0o755)
    (sources / "kernel.cu").write_text("the source")
    with box_output(settings, limit_bytes=1 << 20) as out:
        spec = spec_of(
            slot, "open(sys.argv[2] + '/artifact', 'w').write(open(sys.argv[1]).read() + ', built')", src_dir=sources, out_dir=out
        )
        ended = await ending_of(isolation, replace(spec, argv=(*spec.argv, "{src}/kernel.cu", "{out}")))
        assert ended.exit_code == 0, ended
        assert pick_up(out, "artifact", limit_bytes=100) == b"the source, built"
    assert not out.exists()


async def test_a_tool_is_seen_where_it_lies_and_stays_as_it_is(isolation, slot, place):
    """By the box that is given it. The control is a box that is not, but for a plain process, which sees the host's files."""
    tool = place / "tool"
    tool.mkdir()
    tool.chmod(0o755)
    (tool / "ncu").write_text("the tool")
    (tool / "ncu").chmod(0o666)
    code = f"print(os.path.exists({str(tool / 'ncu')!r}), flush=True)\nopen({str(tool / 'ncu')!r}, 'a')"
    boxed = isolation.NAME != "process"
    for purpose in (Purpose.BUILD, Purpose.RUN):
        ended = await ending_of(isolation, spec_of(slot, code, purpose=purpose, tool_dir=tool))
        assert ended.output.startswith(b"True\n") and (b"Read-only file system" in ended.output) is boxed
    ended = await ending_of(isolation, spec_of(slot, code))
    assert ended.output.startswith(b"False\n" if boxed else b"True\n")


async def test_the_output_directory_is_bounded(isolation, slot, settings):
    with box_output(settings, limit_bytes=1 << 20) as out:
        code = "for n in range(8): open(f'{sys.argv[1]}/{n}', 'wb').write(bytes(1 << 19))"
        ended = await ending_of(isolation, replace(spec := spec_of(slot, code, out_dir=out), argv=(*spec.argv, "{out}")))
        if os.geteuid() == 0:
            assert b"No space left" in ended.output


async def test_a_command_that_does_not_exist_is_the_commands_fault(isolation, slot):
    ended = await ending_of(isolation, replace(spec_of(slot, ""), argv=("/no/such/compiler",)))
    assert (ended.exit_code, ended.output) == (127, b"cannot execute /no/such/compiler: No such file or directory\n")


async def test_nothing_of_the_servers_environment_gets_in(isolation, slot, monkeypatch):
    monkeypatch.setenv("GRADER_TEST_SECRET", "hunter2")
    ended = await ending_of(isolation, spec_of(slot, "print(dict(os.environ))", environment=(("WANTED", "yes"),)))
    assert b"hunter2" not in ended.output
    assert b"'WANTED': 'yes'" in ended.output


@pytest.mark.parametrize(("purpose", "yields"), [(Purpose.RUN, True), (Purpose.RUN, False), (Purpose.BUILD, True)])
async def test_a_kernel_without_a_gpu_gives_way_where_the_host_has_one(isolation_name, settings, slot, purpose, yields):
    """By its niceness; a container by its share of the cores (tests/unit/test_isolation_gpu.py). Builds do not: each has a
    limit of time, and GPU boxes of others could take it."""
    isolation = make(isolation_name, replace(settings, yields_cores=yields))
    try:
        ended = await ending_of(isolation, spec_of(slot, "print(os.nice(0))", purpose=purpose))
    finally:
        await isolation.close()
    gives_way = yields and purpose is Purpose.RUN and isolation_name != "docker"
    assert int(ended.output) == os.nice(0) + (launch.YIELDING_NICENESS if gives_way else 0)


CRASHING_SERVER = """
import asyncio, sys
from pathlib import Path
from grader.isolation import BoxSpec, Purpose
from grader.isolation.select import make
from grader.isolation.settings import BoxSettings
from grader.isolation.probe import LIMITS

async def main(name, state_id, runtime_dir, slot, marker):
    isolation = make(name, BoxSettings(state_id=state_id, runtime_dir=Path(runtime_dir)))
    code = f"# {marker}\\nimport os, time\\nos.fork() or os.setsid()\\nprint('up')\\ntime.sleep(600)"
    argv = ("{python}", "-I", "-S", "-c", code)
    async with isolation.start(BoxSpec(box_id="stray", purpose=Purpose.RUN, argv=argv, limits=LIMITS, slot=int(slot))):
        await asyncio.sleep(0.7)
        print("started", flush=True)
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def crash_a_server(isolation_name, settings, slot, marker):
    arguments = [isolation_name, settings.state_id, str(settings.runtime_dir), str(slot), marker]
    with subprocess.Popen([sys.executable, "-c", CRASHING_SERVER, *arguments], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"started\n"
        server.kill()


async def test_a_sweep_removes_the_box_of_a_crashed_server(isolation, isolation_name, settings, slot, marker):
    await asyncio.to_thread(crash_a_server, isolation_name, settings, slot, marker)
    if isolation_name == "docker":
        assert marked(marker), "the control: without a sweep it lives on"
    swept = await isolation.sweep()
    assert marked(marker) == []
    assert swept == 1 or os.geteuid() != 0
    assert await isolation.sweep() == 0
    assert sorted(path.name for path in settings.runtime_dir.glob("run-*")) in ([], [f"run-{settings.run_id}"])


async def test_a_sweep_spares_live_boxes_and_other_servers(isolation, isolation_name, settings, place, slot, marker):
    stranger = type(isolation)(BoxSettings(state_id=f"other{settings.state_id}", runtime_dir=place / "other"))
    async with isolation.start(spec_of(slot, "time.sleep(600)", marker=marker)) as box:
        await asyncio.sleep(0.3)
        assert await isolation.sweep() == 0
        assert await stranger.sweep() == 0
        assert (await box.kill()).cause is BoxCause.KILLED
    await stranger.close()


async def test_boxes_leak_no_descriptors_and_no_directories(isolation, slot, settings):
    await ending_of(isolation, spec_of(slot, "pass"))
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await ending_of(isolation, spec_of(slot, "pass"))
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert list((settings.runtime_dir / f"run-{settings.run_id}").iterdir()) == []


def test_two_holders_of_slots_never_hold_the_same(place):
    """Also across servers: the lock is the kernel's, and a dead server's slot is free again."""
    with hold_slot(place) as first, hold_slot(place) as second:
        assert (first, second) == (0, 1)
    with hold_slot(place) as again:
        assert again == 0


@pytest.mark.docker
async def test_an_image_without_python_is_our_fault_not_the_submissions(place, usable_isolations):
    if not usable_isolations("docker").usable:
        pytest.skip("needs a Docker engine")
    isolation = DockerIsolation(BoxSettings(state_id="image", runtime_dir=place, box_root="image:grader-box:empty"))
    usability = await isolation.check()
    await isolation.close()
    assert not usability.usable
    assert "python3" in usability.detail


async def test_automatic_choice_says_what_it_passed_over(place):
    settings = BoxSettings(state_id="auto", runtime_dir=place, docker_host="unix:///nonexistent/docker.sock")
    isolation, check = await choose("auto", settings)
    await isolation.close()
    assert isolation.NAME in ("bubblewrap", "process")
    assert check.detail.startswith(f"{isolation.NAME}: ")
    assert [
        warning for warning in check.warnings if warning.startswith("docker is not usable: no Docker engine answers at unix:///nonexistent")
    ]


async def test_a_named_isolation_that_does_not_work_is_not_replaced(place):
    with pytest.raises(NoIsolationWorks, match="docker: no Docker engine answers"):
        await choose("docker", BoxSettings(state_id="auto", runtime_dir=place, docker_host="unix:///nonexistent/docker.sock"))
    with pytest.raises(ValueError, match="choose from auto, docker, bubblewrap, process"):
        await choose("podman", BoxSettings(state_id="auto", runtime_dir=place))
