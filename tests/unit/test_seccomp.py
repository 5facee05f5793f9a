"""The filter: the blob is the profile's, and both say what the record says."""

import json
import stat
import struct
from pathlib import Path

import pytest

from tools import compile_seccomp as compiler

PROFILES = Path(__file__).parents[2] / "sandbox" / "profiles"
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NO_OP, EPERM, ENOSYS = ERRNO, ERRNO | 1, ERRNO | 38  # NO_OP: answers 0 and does nothing
X86_64, I386 = 0xC000003E, 0x40000003
AT_FDCWD = 0xFFFFFF9C


@pytest.fixture(scope="module")
def profile():
    return json.loads((PROFILES / "seccomp.json").read_text())


@pytest.fixture(scope="module")
def answer(profile):
    """Return a function that asks the committed program about a call."""
    program = (PROFILES / "seccomp.bpf").read_bytes()
    numbers = compiler.system_calls()

    def ask(call, *arguments, arch=X86_64, using=program):
        number = numbers[call] if isinstance(call, str) else call
        return run(using, struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments))))

    return ask


def run(program, data):
    """Interpret the few instructions that the compiler uses, as the kernel would."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    at, register = 0, 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        match code:
            case 0x20:
                register = struct.unpack_from("<I", data, operand)[0]
            case 0x54:
                register &= operand
            case 0x05:
                at += operand
            case 0x15:
                at += if_true if register == operand else if_false
            case 0x35:
                at += if_true if register >= operand else if_false
            case 0x06:
                return operand
            case _:
                raise AssertionError(hex(code))


def test_the_committed_program_is_the_profiles(profile):
    """Run tools/compile_seccomp.py after a change of seccomp.json."""
    assert compiler.compile_profile(profile) == (PROFILES / "seccomp.bpf").read_bytes()


def test_every_call_gets_what_the_profile_says(profile, answer):
    """All numbers, named or not: the tree of jumps is right everywhere."""
    actions = {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_KILL_PROCESS": KILL, "SCMP_ACT_ERRNO": EPERM}
    expected = {}
    for entry in profile["syscalls"]:
        for name in entry["names"]:
            expected[compiler.system_calls()[name]] = ERRNO | entry["errnoRet"] if "errnoRet" in entry else actions[entry["action"]]
    conditional = {compiler.system_calls()[name] for entry in profile["syscalls"] if entry["args"] for name in entry["names"]}
    for number in set(range(600)) - conditional:
        assert answer(number) == expected.get(number, EPERM), number


def test_every_name_in_the_profile_is_a_call(profile):
    names = [(name, *map(str, entry["args"])) for entry in profile["syscalls"] for name in entry["names"]]
    assert {name for name, *_ in names} <= set(compiler.system_calls())
    assert len(names) == len(set(names))


@pytest.mark.parametrize("family", [0, 2, 10, 16, 17, 38, 40, 1 | 1 << 32, 2 | 1 << 32])
def test_only_unix_sockets_are_made(answer, family):
    """Also with something in the half of the argument that the kernel ignores."""
    assert answer("socket", family) == EPERM
    assert answer("socketpair", family) == EPERM
    assert answer("socket", 1) == answer("socketpair", 1) == ALLOW


@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_no_namespace(answer, flag):
    thread = 0x003D0F00
    assert answer("clone", thread | flag) == EPERM
    assert answer("clone", thread) == ALLOW


@pytest.mark.parametrize("kind", [stat.S_IFREG, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFIFO | stat.S_IFCHR, 0])
def test_only_fifos_are_made(answer, kind):
    """NVIDIA's tools start a program through a FIFO; a device would be the host's memory or disk."""
    assert answer("mknodat", AT_FDCWD, 0, kind | 0o666, 0x0103) == EPERM
    assert answer("mknodat", AT_FDCWD, 0, stat.S_IFIFO | 0o600, 0) == ALLOW


@pytest.mark.parametrize("call", ["preadv2", "pwritev2"])
@pytest.mark.parametrize("flags", [1, 8, 0x40, 8 | 1 << 32, 1 << 31])
def test_vectored_reads_and_writes_take_no_flags(answer, call, flags):
    """RWF_NOWAIT reads a page only if it is cached. Without flags the calls are preadv and pwritev."""
    assert answer(call, 3, 4096, 1, 0, 0, flags) == EPERM
    assert answer(call, 3, 4096, 1, 0, 0, 0) == ALLOW


@pytest.mark.parametrize("high", [0, 1 << 32], ids=["plain", "with high bits"])
@pytest.mark.parametrize(
    ("call", "index", "allowed", "answered"),
    [
        ("fcntl", 1, {*range(5), *range(8, 12), 15, 16, *range(1030, 1035)}, {6, 7, 37, 38}),  # not F_NOTIFY, leases, hints
        ("madvise", 2, {*range(5), *range(8, 12), *range(14, 20), 22, 23, 24, 102, 103}, set()),  # not pages that others map
    ],
)
def test_only_listed_commands_reach_the_kernel(answer, call, index, allowed, answered, high):
    """Which ignores the high half: with something in it, nothing is done."""
    for command in (*range(128), *range(1000, 1100)):
        usual = ALLOW if command in allowed else NO_OP if command in answered else EPERM
        assert answer(call, *[0] * index, command | high) == (EPERM if high else usual), command


def test_what_all_boxes_share_is_not_touched(answer):
    """Locks and flushes answer that they are done; the host's counters and its pool of huge pages are not there."""
    assert {answer(call) for call in ("flock", "sync", "syncfs")} == {NO_OP} and answer("sysinfo") == ENOSYS
    assert (answer("mmap", 0, 4096, 3, 0x22), answer("mmap", 0, 4096, 3, 0x22 | 0x40000)) == (ALLOW, EPERM)
    assert (answer("memfd_create", 0, 1), answer("memfd_create", 0, 1 | 4)) == (ALLOW, EPERM)


def test_another_abi_ends_the_process(answer):
    """A 32-bit call from a 64-bit program has other numbers: filtered by ours it would be another call."""
    assert answer(102, arch=I386) == KILL
    assert answer(0x40000000 | 41) == KILL


ANSWERS = {
    # What nobody needs ends the process.
    KILL: "ptrace process_vm_readv process_vm_writev bpf kexec_load init_module reboot",
    # What is probed is refused; the page cache is neither asked nor advised.
    EPERM: """
    mount umount2 pivot_root chroot unshare setns open_tree fsopen move_mount keyctl add_key request_key io_uring_setup userfaultfd
    perf_event_open pidfd_open pidfd_getfd pidfd_send_signal kcmp process_madvise shmget shmat msgget semget mq_open inotify_init1
    fanotify_init name_to_handle_at open_by_handle_at personality splice tee vmsplice mknod setxattr sched_setscheduler sched_setattr
    ioprio_set adjtimex clock_adjtime clock_settime execveat mbind get_mempolicy set_mempolicy migrate_pages quotactl acct syslog
    sethostname iopl ioperm modify_ldt vhangup fadvise64
    """,
    ENOSYS: "clone3 cachestat mincore readahead",
    # What the CUDA driver needs. Its descriptors come over a socket (recvmsg), never by pidfd_getfd.
    ALLOW: """
    ioctl mmap munmap mprotect madvise eventfd2 poll ppoll pipe2 memfd_create ftruncate prctl sched_getaffinity sched_setaffinity
    sched_yield mlock munlock sendmsg recvmsg statfs readlink uname getcpu
    """,
}


@pytest.mark.parametrize(("call", "expected"), [(call, expected) for expected, calls in ANSWERS.items() for call in calls.split()])
def test_a_call_gets_its_answer(answer, call, expected):
    assert answer(call) == expected


def test_a_variant_differs_only_where_it_should(profile, answer):
    """The controls of the containment tests weaken one rule at a time."""
    weaker = json.loads(json.dumps(profile))
    weaker["syscalls"][0]["names"].append("io_uring_setup")
    program = compiler.compile_profile(weaker)
    assert answer("io_uring_setup", using=program) == ALLOW
    assert answer("keyctl", using=program) == answer("keyctl") == EPERM


def test_a_profile_for_other_machines_is_not_compiled(profile):
    with pytest.raises(ValueError, match="x86_64"):
        compiler.compile_profile({**profile, "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]})
