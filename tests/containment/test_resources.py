"""Attacks on what a box may use (numbers 1 to 30 of README.md), each with its control."""

import asyncio
import os
import resource
import signal
import subprocess
import sys

from grader.isolation import Purpose
from grader.isolation.directories import box_output
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from sandbox.protocol.wire import BoxCause
from tests.containment.conftest import HANG_S, exists

FORKS = """
count = 0
try:
    while count < 60:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError:
    pass
print("FORKED", count)
"""


async def test_01_a_fork_bomb_stops_at_the_process_limit(cage):
    assert int((await cage.says(FORKS))[-1].split()[1]) < 24
    assert await cage.says(FORKS, without=["process_limit"]) == ["FORKED 60"]


async def test_02_a_fork_loop_that_ignores_errors_meets_the_wall_and_is_cleared(cage):
    """Nothing is left; the control is the same loop alive before the wall."""
    loop = """
    while True:
        try:
            if os.fork() == 0:
                time.sleep(60)
        except OSError:
            pass
    """
    async with cage.live(loop, limits={"wall_s": 4.0}) as box:
        ending, peak = asyncio.ensure_future(box.wait()), 0
        while not ending.done():
            peak = max(peak, len(cage.leftovers()))
            await asyncio.sleep(0.1)
        ended = await ending
    assert peak > 15, "the control: it forks"
    assert ended.cause is BoxCause.WALL_LIMIT
    assert cage.leftovers() == []


THREADS = """
started = 0
try:
    for _ in range(60):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
print("STARTED", started, flush=True)
os._exit(0)
"""


async def test_03_a_thread_bomb_stops_at_the_process_limit(cage):
    assert int((await cage.says(THREADS))[-1].split()[1]) < 24
    assert await cage.says(THREADS, without=["process_limit"]) == ["STARTED 60"]


async def test_04_a_memory_bomb_ends_as_one(cage):
    bomb = "hoard = bytearray(os.urandom(1)) * (300 << 20); print('HELD', len(hoard))"
    ended = await cage.run(bomb)
    assert ended.cause is BoxCause.MEMORY_LIMIT
    assert ended.output == b""
    assert await cage.says(bomb, without=["memory_limit"]) == [f"HELD {300 << 20}"]


async def test_05_many_middling_processes_are_summed(cage):
    """They hold on until the last has its share, or one is gone."""
    bomb = """
    ready, release = os.pipe(), os.pipe()
    for _ in range(8):
        if os.fork() == 0:
            os.close(release[1])
            hoard = bytearray(os.urandom(1)) * (40 << 20)
            os.write(ready[1], b'x')
            os.read(release[0], 1)
            os._exit(0)
    os.set_blocking(ready[0], False)
    ended, have = (0, 0), 0
    while have < 8 and ended == (0, 0):
        time.sleep(0.01)
        ended = os.waitpid(-1, os.WNOHANG)
        try:
            have += len(os.read(ready[0], 8))
        except BlockingIOError:
            pass
    os.close(release[1])
    print("HAD", have)
    sys.exit(1)
    """
    ended = await cage.run(bomb)
    assert ended.cause is BoxCause.MEMORY_LIMIT
    assert await cage.says(bomb, without=["memory_limit"]) == ["HAD 8"]


async def test_06_tmp_is_bounded(cage):
    fill = "attempt('fill', lambda: [open(f'/tmp/{n}', 'wb').write(bytes(1 << 20)) for n in range(20)] and 20)"
    await cage.refuses(fill, "fill DENIED ENOSPC", "fill THROUGH 20", without=["tmp_limit"])


async def test_07_shared_memory_is_bounded(cage):
    fill = "attempt('fill', lambda: [open(f'/dev/shm/{n}', 'wb').write(bytes(4 << 20)) for n in range(6)] and 24)"
    await cage.refuses(fill, "fill DENIED ENOSPC", "fill THROUGH 24", without=["shm_limit"])


async def test_08_files_in_tmp_are_counted(cage, root_only):
    fill = "attempt('fill', lambda: [os.close(os.open(f'/tmp/{n}', os.O_CREAT)) for n in range(21000)] and 21000)"
    await cage.refuses(fill, "fill DENIED ENOSPC", "fill THROUGH 21000", without=["tmp_limit"])


async def test_10_a_sparse_giant_is_refused(cage):
    attack = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    attempt('sparse', lambda: os.truncate(os.open('/tmp/giant', os.O_CREAT | os.O_RDWR), 1 << 40))
    """
    await cage.refuses(attack, "sparse DENIED EFBIG", "sparse THROUGH None", without=["rlimits"])


async def test_11_memory_that_is_a_file_is_bounded_too(cage):
    attack = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    attempt('memfd', lambda: os.truncate(os.memfd_create('x'), 1 << 40))
    """
    await cage.refuses(attack, "memfd DENIED EFBIG", "memfd THROUGH None", without=["rlimits"])


async def test_12_no_system_v_memory_outlives_the_box(cage):
    attack = "attempt('shmget', lambda: call(29, 0, 1 << 20, 0o1600) >= 0)"
    await cage.refuses(attack, "shmget DENIED EPERM", "shmget THROUGH True", without=["seccomp"])


async def test_14_a_flood_ends_the_box_at_the_cap(cage):
    flood = "for _ in range(64): os.write(1, b'\\x1b[2J\\0\\xff' * 10923)"
    ended = await cage.run(flood)
    assert ended.cause is BoxCause.OUTPUT_LIMIT
    assert len(ended.output) == 64 * 1024
    control = await cage.run(flood, limits={"output_bytes": 8 << 20})
    assert control.cause is BoxCause.EXITED


async def test_16_a_flood_of_errors_is_a_flood(cage):
    flood = "for _ in range(64): os.write(2, b'x' * 32768)"
    assert (await cage.run(flood)).cause is BoxCause.OUTPUT_LIMIT
    assert (await cage.run(flood, limits={"output_bytes": 8 << 20})).cause is BoxCause.EXITED


async def test_18_a_sleeper_meets_the_wall(cage):
    assert (await cage.run("time.sleep(1.5)", limits={"wall_s": 0.7})).cause is BoxCause.WALL_LIMIT
    assert (await cage.run("time.sleep(1.5)")).cause is BoxCause.EXITED


async def test_20_ignoring_every_signal_does_not_help(cage, root_only):
    """The control: a polite SIGTERM is ignored, so it is the wall's SIGKILL that ends it."""
    shared = cage.open_directory("shared")
    deaf = """
    for number in signal.valid_signals():
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    open(sys.argv[1] + '/deaf', 'w').close()
    while True:
        time.sleep(1)
    """
    async with cage.live(deaf, out_dir=shared, words=["{out}"]) as box:
        await exists(shared / "deaf")
        innermost = max(cage.leftovers())
        os.kill(innermost, signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert innermost in cage.leftovers()
        box.begin(0.5)  # the wall counts anew from here: on a busy machine it takes a while to start
        ended = await box.wait()
    assert ended.cause is BoxCause.WALL_LIMIT
    assert cage.leftovers() == []


async def still_there(cage, attack):
    """The control of an end at the wall: with the wall far away it is there, long after it has said what it does."""
    async with cage.live(attack) as box:
        while not cage.leftovers():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.9)
        return bool(cage.leftovers()) and (await box.kill()).cause is BoxCause.KILLED


async def test_21_stopping_itself_does_not_stop_the_wall(cage):
    attack = "os.kill(os.getpid(), signal.SIGSTOP)"
    assert (await cage.run(attack, limits={"wall_s": 0.7})).cause is BoxCause.WALL_LIMIT
    assert await still_there(cage, attack)


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
time.sleep(0.2)
"""


async def test_25_a_daemon_dies_with_its_box(cage):
    """The control: the same on the bare host outlives its parent."""
    ended = await cage.run(DAEMON)
    assert ended.cause is BoxCause.EXITED
    assert cage.leftovers() == []
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", f"# {cage.marker}\nimport os, time\n{DAEMON}"], timeout=HANG_S, check=True
    )
    outliving = cage.leftovers()
    assert len(outliving) == 1
    os.kill(outliving[0], signal.SIGKILL)


async def test_27_closing_the_output_does_not_stop_the_wall(cage):
    attack = "os.closerange(0, 3)\nwhile True: time.sleep(1)"
    assert (await cage.run(attack, limits={"wall_s": 0.7})).cause is BoxCause.WALL_LIMIT
    assert await still_there(cage, attack)


async def test_28_zombies_are_bounded_and_leave_with_the_box(cage):
    pile = """
    count = 0
    try:
        while count < 60:
            if os.fork() == 0:
                os._exit(0)
            count += 1
    except OSError:
        pass
    print("PILED", count)
    """
    assert int((await cage.says(pile))[-1].split()[1]) < 24
    assert await cage.says(pile, without=["process_limit"]) == ["PILED 60"]


async def test_29_open_files_are_counted(cage):
    attack = "attempt('open', lambda: [os.open('/dev/null', os.O_RDONLY) for _ in range(200)] and 200)"
    await cage.refuses(attack, "open DENIED EMFILE", "open THROUGH 200", without=["rlimits"])


async def test_30_no_core_is_dumped_even_if_asked_for(cage):
    attack = """
    import resource
    attempt('raise', lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))
    print('limit', resource.getrlimit(resource.RLIMIT_CORE), flush=True)
    os.abort()
    """
    ended = await cage.run(attack)
    assert (ended.cause, ended.signal) == (BoxCause.SIGNALLED, signal.SIGABRT)
    lines = ended.output.decode().splitlines()
    assert lines[0].startswith("raise DENIED")
    assert lines[1] == "limit (0, 0)"
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == resource.RLIM_INFINITY:
        control = await cage.says(attack.replace("os.abort()", ""), without=["rlimits"])
        assert control[0] == "raise THROUGH None"


async def test_46_nothing_written_while_building_is_seen_while_running(cage):
    """The same slot, another box; the control is the same box a moment later."""
    poison = "open('/tmp/sitecustomize.py', 'w').write('x'); open('/dev/shm/x', 'w').write('x')"
    # Files only: where the checkout lies in /tmp, the way to its bind is there too.
    look = "\nprint(sorted(name for top in ('/tmp', '/dev/shm') for name in os.listdir(top) if os.path.isfile(top + '/' + name)))"
    assert await cage.says(poison + look) == ["['sitecustomize.py', 'x']"]
    assert await cage.says(look, purpose=Purpose.RUN) == ["[]"]


async def test_57_nothing_in_tmp_is_executed_while_running(cage, root_only):
    """A speed bump only; a build box may, which is the control."""
    attack = """
    os.close(os.open('/tmp/x', os.O_CREAT | os.O_WRONLY, 0o755))
    open('/tmp/x', 'w').write('#!/bin/sh\\necho ran')
    attempt('exec', lambda: os.posix_spawn('/tmp/x', ['/tmp/x'], {}) > 0)
    """
    assert await cage.says(attack, purpose=Purpose.RUN) == ["exec DENIED EACCES"]
    assert "exec THROUGH True" in await cage.says(attack)


async def test_42_a_symlink_left_by_a_build_leads_nowhere(cage):
    """The control: in a directory that is no mount of ours, and opened by name, it is the file it points to."""
    secret, plain = cage.place / "secret", cage.open_directory("plain")
    secret.write_text("expected output")
    attack = f"attempt('link', lambda: os.symlink({str(secret)!r}, sys.argv[1] + '/artifact'))"
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        for directory in (out, plain):
            assert await cage.says(attack, out_dir=directory, words=["{out}"]) == ["link THROUGH None"]
            pickup = pick_up(directory, "artifact", limit_bytes=100)
            assert isinstance(pickup, Refusal) and pickup.reason is RefusalReason.SYMLINK
            assert os.readlink(directory / "artifact") == str(secret)
    assert (plain / "artifact").read_text() == "expected output"
