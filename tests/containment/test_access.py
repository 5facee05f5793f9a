"""Attacks on what lies outside a box (numbers 22 to 55 of README.md), each with its control."""

import asyncio
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation import Purpose
from grader.isolation.directories import slot_uid
from sandbox.protocol.wire import BoxCause
from tests.containment.conftest import HANG_S

ROOT = Path(__file__).parents[2]
CAP_SYS_RESOURCE = 24


async def test_22_the_server_cannot_be_signalled(cage):
    attack = f"attempt('signal', lambda: os.kill({os.getpid()}, 0))"
    await cage.refuses(attack, "signal DENIED ESRCH", "signal THROUGH None", without=["own_pids", "own_uid"])


async def test_24_killing_everybody_kills_only_oneself(cage, root_only):
    """A canary on the host has the box's very uid; without a process namespace of its own the box kills it."""
    attack = "attempt('kill', lambda: os.kill(-1, signal.SIGKILL))\nopen(sys.argv[1] + '/tried', 'w').close()\ntime.sleep(60)"
    uid = slot_uid(cage.slot, Purpose.BUILD)
    for without, survives in (([], True), (["own_pids"], False)):
        shared = cage.open_directory(f"shared{survives}")
        with subprocess.Popen(["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[]) as canary:
            async with cage.live(attack, without=without, out_dir=shared, words=["{out}"]), asyncio.timeout(HANG_S):
                while canary.poll() is None and not (shared / "tried").exists():
                    await asyncio.sleep(0.05)
                # A signal that was sent need not have arrived. Asked here: at the end we ourselves clear the uid.
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(canary.wait, 1 if survives else 30)
                assert (canary.poll() is None) is survives
            canary.kill()


HOLES = """
def peek(path, flags=os.O_RDWR):
    os.close(os.open(path, flags))
    return "opened"
sibling = os.fork()
if sibling == 0:
    time.sleep(60)
    os._exit(0)
"""


async def test_34_the_first_process_gives_nothing_away(cage):
    """The first process has the command's uid, but its memory is closed; the control is a process that did not close its own."""
    attack = f"""{HOLES}
attempt('fd', lambda: os.listdir('/proc/1/fd'))
attempt('output', lambda: peek('/proc/1/fd/1', os.O_WRONLY))
attempt('tty', lambda: peek('/dev/tty'))
attempt('environ', lambda: len(open('/proc/1/environ').read()) > 0)
attempt('root', lambda: os.listdir('/proc/1/root'))
attempt('control', lambda: len(os.listdir(f'/proc/{{sibling}}/fd')) > 0)
"""
    assert await cage.says(attack) == [
        "fd DENIED EACCES",
        "output DENIED EACCES",
        "tty DENIED ENXIO",
        "environ DENIED EACCES",
        "root DENIED EACCES",
        "control THROUGH True",
    ]


async def test_35_the_first_processs_memory_is_not_written(cage):
    attack = f"""{HOLES}
attempt('mem', lambda: peek('/proc/1/mem'))
attempt('mem read', lambda: peek('/proc/1/mem', os.O_RDONLY))
attempt('control', lambda: peek(f'/proc/{{sibling}}/mem', os.O_RDONLY))
attempt('pidfd_open', lambda: call(434, 1, 0) > 0)
attempt('pidfd_getfd', lambda: call(438, 1, 0, 0) > 0)
"""
    denied = ["mem DENIED EACCES", "mem read DENIED EACCES", "control THROUGH opened"]
    assert await cage.says(attack) == [*denied, "pidfd_open DENIED EPERM", "pidfd_getfd DENIED EPERM"]
    assert (await cage.says(attack, without=["seccomp"]))[3] == "pidfd_open THROUGH True"


@pytest.mark.parametrize("number", [101, 310, 311], ids=["ptrace", "process_vm_readv", "process_vm_writev"])
async def test_35_looking_into_another_process_is_a_violation(cage, number):
    attack = f"attempt('call', lambda: call({number}, 0, 0, 0, 0, 0, 0))"
    assert (await cage.run(attack)).cause is BoxCause.SANDBOX_VIOLATION
    assert (await cage.run(attack, without=["seccomp"])).cause is BoxCause.EXITED


def has_capability(number):
    """Return whether this process has it; a root in a container of its own need not."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")]
    return bool(int(line.split()[1], 16) >> number & 1)


async def test_37_a_box_stays_the_first_to_be_killed_for_memory(cage):
    """No protection of ours, but a root that has every capability may, which is the control."""
    attack = """
    attempt('adjust', lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000'))
    print(open('/proc/self/oom_score_adj').read())
    """
    assert (await cage.says(attack))[:2] == [f"adjust DENIED {'EACCES' if cage.name == 'docker' else 'EROFS'}", "1000"]
    if has_capability(CAP_SYS_RESOURCE):
        assert (await cage.on_host(attack))[:2] == ["adjust THROUGH 5", "-1000"]


async def test_38_no_descriptor_is_inherited(cage):
    """The control: one that is open is seen."""
    look = "print(sorted(int(n) for n in os.listdir('/proc/self/fd')))\n"
    lines = await cage.says(look + "extra = os.open('/dev/null', os.O_RDONLY)\n" + look)
    assert lines == ["[0, 1, 2, 3]", "[0, 1, 2, 3, 4]"], "the last is the listing's own"


async def test_39_no_secret_is_in_the_environment_or_in_any_command_line(cage, monkeypatch):
    monkeypatch.setenv("GRADER_TEST_SECRET", "hunter2")
    attack = """
    seen = str(dict(os.environ))
    for pid in os.listdir('/proc'):
        if pid.isdigit():
            for name in ('environ', 'cmdline'):
                try:
                    seen += open(f'/proc/{pid}/{name}').read()
                except OSError:
                    pass
    print('SEEN', 'hunter' + '2' in seen)
    """
    await cage.refuses(attack, "SEEN False", "SEEN True", environment=(("CONTROL", "hunter2"),))


async def test_40_the_hosts_proc_is_masked(cage):
    attack = """
    for name in ('interrupts', 'kcore', 'keys', 'timer_list', 'sched_debug'):
        attempt(name, lambda: len(open('/proc/' + name, 'rb').read(100)) or os.open('/nonexistent', 0))
    attempt('sysrq', lambda: open('/proc/sysrq-trigger', 'w').write(''))
    attempt('sys', lambda: open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x'))
    """
    assert not [line for line in await cage.says(attack) if "THROUGH" in line]
    control = await cage.says(attack, without=["masked_proc"])
    assert [line for line in control if line.startswith("interrupts THROUGH")], control


async def test_41_the_references_files_are_not_there(cage):
    """Neither by path nor by import; the control binds them in."""
    targets = [ROOT / "sandbox" / "judge", ROOT / "grader", ROOT / "grader_extensions", ROOT / "tests", ROOT / "kernels_examples"]
    paths = [
        *map(str, targets),
        "/grader/lib/sandbox/judge",
        "/grader/lib/grader",
        "/grader/lib/grader_extensions/formats",
        "/etc/shadow",
        "/root/.ssh",
    ]
    paths += [] if ROOT.is_relative_to("/home") else ["/home"]  # a checkout there is bound, and so are the directories above it
    attack = f"for path in {paths!r}: attempt(path, lambda: len(os.listdir(path) if os.path.isdir(path) else open(path).read()))"
    assert not [line for line in await cage.says(attack) if "THROUGH" in line]
    control = await cage.says(attack, extra_binds=[(str(path), str(path)) for path in targets if path.exists()])
    assert [line for line in control if "THROUGH" in line]


async def test_41_a_box_has_its_own_side_of_the_library_and_no_other(cage):
    look = """
    sys.path.insert(0, '/grader/lib')
    import importlib.util
    print([importlib.util.find_spec(name) is not None for name in ('sandbox.runner', 'sandbox.judge', 'grader')])
    """
    assert await cage.says(look) == ["[True, False, False]"]


async def test_45_nothing_outside_tmp_and_out_is_written(cage):
    attack = """
    for path in ('/x', '/etc/x', '/usr/x', '/grader/x', '/grader/link/x', '/grader/lib/x', '/dev/x', '/proc/x', '/var/x'):
        attempt(path, lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    """
    assert not [line for line in await cage.says(attack) if "THROUGH" in line]
    control = await cage.says(attack, without=["read_only_root", "own_uid"])
    assert "/x THROUGH None" in control


async def test_47_no_mount_and_no_namespace_is_made(cage):
    attack = """
    attempt('mount', lambda: call(165, b'none', b'/tmp', b'tmpfs', 0, 0))
    attempt('pivot_root', lambda: call(155, b'/tmp', b'/tmp'))
    attempt('fsopen', lambda: call(430, b'tmpfs', 0))
    attempt('setns', lambda: call(308, 0, 0))
    attempt('unshare', lambda: call(272, 0x10000000))
    """
    names = ["mount", "pivot_root", "fsopen", "setns", "unshare"]
    assert await cage.says(attack) == [f"{name} DENIED EPERM" for name in names]
    control = await cage.says(attack, without=["seccomp", "no_nested_namespaces"])
    assert control[-1] == "unshare THROUGH 0"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap as the attacker's tool")
async def test_48_no_sandbox_is_built_inside(cage):
    argv = ("/usr/bin/bwrap", "--ro-bind", "/", "/", "--unshare-user", "/bin/echo", "inside")
    assert b"inside\n" not in (await cage.run("", argv=argv)).output
    assert (await cage.run("", argv=argv, without=["seccomp", "no_nested_namespaces", "masked_proc"])).output == b"inside\n"


async def test_49_a_setuid_program_gives_nothing(cage, root_only):
    """A program of root's with the bit set; the control runs it on the host as the box's uid."""
    directory = cage.place / "setuid"
    directory.mkdir()
    cage.place.chmod(0o711)
    source = '#include <unistd.h>\n#include <stdio.h>\nint main(){printf("%d\\n", (int)geteuid());}'
    program = directory / "whoami"
    await asyncio.to_thread(subprocess.run, ["gcc", "-xc", "-", "-o", program], input=source.encode(), check=True, timeout=60)
    program.chmod(0o4755)
    async with cage.live("", argv=("/grader/setuid/whoami",), extra_binds=[(str(directory), "/grader/setuid")]) as box:
        ended = await box.wait()
    assert ended.output.decode().strip() == str(box.uid)
    control = await asyncio.to_thread(
        subprocess.run, [program], user=box.uid, group=box.uid, capture_output=True, timeout=HANG_S, check=True
    )
    assert control.stdout == b"0\n"


async def test_49_no_new_privileges_and_no_capabilities(cage):
    attack = (
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp:'))])"
    )
    assert await cage.says(attack) == ["['0000000000000000', '0000000000000000', '1', '2']"]
    control = await cage.says(attack, without=["drop_capabilities", "seccomp"])
    assert "'0000000000000000', '1', '2'" not in control[0]
    assert not control[0].startswith("['0000000000000000', '0000000000000000'")


async def test_50_no_device_is_made_or_found(cage):
    attack = """
    attempt('mknod', lambda: os.mknod('/tmp/x', 0o20666, os.makedev(1, 1)))
    for path in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/kvm', '/dev/fuse', '/dev/nvidia0', '/dev/loop0'):
        attempt(path, lambda: os.close(os.open(path, os.O_RDONLY)))
    """
    assert not [line for line in await cage.says(attack) if "THROUGH" in line]
    if cage.name == "docker":
        control = await cage.says(attack, without=["seccomp", "drop_capabilities", "own_uid"])
        assert control[0] == "mknod THROUGH None"
    elif os.geteuid() == 0:  # in a user namespace nobody makes one, so the control is on the host
        node = cage.place / "device"
        assert await cage.on_host(f"attempt('mknod', lambda: os.mknod({str(node)!r}, 0o20666, os.makedev(1, 1)))") == ["mknod THROUGH None"]


async def test_51_no_keyring_is_shared(cage):
    attack = "attempt('add_key', lambda: call(248, b'user', b'grader-test', b'x', 1, -3) > 0)"
    await cage.refuses(attack, "add_key DENIED EPERM", "add_key THROUGH True", without=["seccomp"])


async def test_52_calls_with_a_history_are_refused(cage):
    attack = """
    attempt('userfaultfd', lambda: call(323, 1) > 0)
    attempt('perf_event_open', lambda: call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0) > 0)
    attempt('io_uring', lambda: call(425, 1, ctypes.create_string_buffer(256)) > 0)
    """
    assert await cage.says(attack) == [f"{name} DENIED EPERM" for name in ("userfaultfd", "perf_event_open", "io_uring")]
    control = await cage.says(attack, without=["seccomp"])
    assert [line for line in control if "THROUGH" in line], control


async def test_52_bpf_is_a_violation(cage):
    assert (await cage.run("attempt('bpf', lambda: call(321, 0, 0, 0))")).cause is BoxCause.SANDBOX_VIOLATION
    assert (await cage.run("attempt('bpf', lambda: call(321, 0, 0, 0))", without=["seccomp"])).cause is BoxCause.EXITED


async def test_53_only_unix_sockets_are_made(cage):
    """Made, never connected."""
    families = ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"]
    attack = f"for name in {families!r}: attempt(name, lambda: socket.socket(getattr(socket, name), socket.SOCK_DGRAM).close())"
    assert await cage.says(attack) == [f"{name} DENIED EPERM" for name in families]
    assert "AF_NETLINK THROUGH None" in await cage.says(attack, without=["seccomp"])


async def test_53_the_other_abi_is_a_violation(cage):
    """A 32-bit system call from a 64-bit program: `int 0x80` with getpid's old number."""
    attack = """
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    print('GETPID', ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))(), flush=True)
    """
    ended = await cage.run(attack)
    assert (ended.cause, ended.output) == (BoxCause.SANDBOX_VIOLATION, b"")
    control = await cage.run(attack, without=["seccomp"])
    assert control.output.startswith(b"GETPID") or control.cause is BoxCause.SIGNALLED, "a kernel without 32-bit calls kills it too"


async def test_54_no_network_is_reached(cage):
    """Two layers: the filter, and with the filter off the empty network; with both off the host's loopback answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attack = f"""
        def reach(address):
            with socket.socket() as probe:
                probe.settimeout(0.5)
                probe.connect(address)
        attempt('loopback', lambda: reach(('127.0.0.1', {port})))
        attempt('metadata', lambda: reach(('169.254.169.254', 80)))
        print([line.split(':')[0].strip() for line in open('/proc/self/net/dev').readlines()[2:]])
        """
        assert await cage.says(attack) == ["loopback DENIED EPERM", "metadata DENIED EPERM", "['lo']"]
        unfiltered = await cage.says(attack, without=["seccomp"])
        assert unfiltered == ["loopback DENIED ECONNREFUSED", "metadata DENIED ENETUNREACH", "['lo']"]
        control = await cage.says(attack, without=["seccomp", "own_network"])
        assert control[0] == "loopback THROUGH None"


async def test_55_the_hosts_sockets_are_not_there(cage):
    """Nor the abstract ones, which have no path but belong to the network namespace."""
    name = f"\0grader-{cage.place.name}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen(4)
        attack = f"""
        attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
        attempt('docker', lambda: os.stat('/var/run/docker.sock') and None)
        attempt('dbus', lambda: os.listdir('/run'))
        """
        expected = ["abstract DENIED ECONNREFUSED", "docker DENIED ENOENT", "dbus DENIED ENOENT"]
        assert await cage.says(attack) == expected
        control = await cage.says(attack, without=["own_network"], extra_binds=[("/run", "/run")])
        assert control[0] == "abstract THROUGH None"
        assert control[2].startswith("dbus THROUGH")


async def test_56_boxes_in_two_slots_have_two_uids(cage, root_only):
    """Limits of the kernel that are counted per uid are then nobody else's."""
    first = await cage.says("print(os.getuid())")
    with cage.in_another_slot():
        second = await cage.says("print(os.getuid())")
        assert first != second
        assert await cage.says("print(os.getuid())", without=["own_uid"]) == ["0"]


async def test_41_a_hidden_directory_is_covered_even_below_a_bound_one(cage):
    attack = "attempt('look', lambda: len(os.listdir('/usr/share/doc')) or os.stat('/nonexistent'))"
    assert (await cage.says(attack))[0].startswith("look THROUGH"), "the control: it lies below /usr"
    cage.settings = replace(cage.settings, hidden_paths=(Path("/usr/share/doc"),))
    assert await cage.says(attack) == ["look DENIED ENOENT"]
