"""Two boxes that live at the same time: nothing that one of them does may be seen by the other one, and what still is has a name here."""

import json
from contextlib import AsyncExitStack

import pytest

from grader.isolation import OUT, Purpose
from grader.isolation.toolchain import profile

# Every call that the filter lets through, by why it carries nothing from one box to another. A new one has to be put somewhere.
OF_ONE_PROCESS = """
alarm arch_prctl brk capget capset clock_getres clock_gettime clock_nanosleep clone close close_range dup dup2 dup3 execve exit exit_group
fork get_robust_list get_thread_area getcpu getcwd getegid geteuid getgid getgroups getitimer getpgid getpgrp getpid getppid getpriority
getrandom getresgid getresuid getrlimit getrusage getsid gettid gettimeofday getuid kill membarrier mlock mlock2 mlockall mprotect mremap
mseal msync munlock munlockall munmap nanosleep pause pkey_alloc pkey_free pkey_mprotect prctl prlimit64 restart_syscall rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_yield
seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid
setresuid setreuid setrlimit setsid setuid sigaltstack tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
times tkill umask uname vfork wait4 waitid
"""  # the process's own, or of its namespaces of processes and users
OF_OWN_DESCRIPTORS = """
accept accept4 bind connect epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 getpeername
getsockname getsockopt listen pipe pipe2 poll ppoll pselect6 recvfrom recvmmsg recvmsg select sendmmsg sendmsg sendto setsockopt shutdown
signalfd signalfd4 socket socketpair timerfd_create timerfd_gettime timerfd_settime
"""  # AF_UNIX in a network namespace of its own
OF_FILES = """
access chdir chmod chown copy_file_range creat faccessat faccessat2 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync
fgetxattr flistxattr fstat fsync ftruncate futimesat getdents getdents64 getxattr ioctl lchown lgetxattr link linkat listxattr llistxattr
lseek lstat mkdir mkdirat mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readlink readlinkat
readv rename renameat renameat2 rmdir sendfile stat statx symlink symlinkat sync_file_range truncate unlink unlinkat utime utimensat utimes
write writev
"""  # what boxes share is read-only, and reading changes nothing (test_between_boxes.py)
BY_ARGUMENT = "fcntl madvise memfd_create mmap"  # tests/unit/test_seccomp.py has which
REMAINING = "futex futex_requeue futex_wait futex_waitv futex_wake fstatfs statfs"  # docs/security.md; the first are shown below

MEETING = f"""
import fcntl, json, re, resource
def tell(name):
    open('{OUT}/' + name, 'w').close()
def wait(name):
    while not os.path.exists('{OUT}/' + name):
        time.sleep(0.01)
PATH = os.path.join(os.path.dirname(json.__file__), 'tool.py')
LOCK = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 4711, 0)
def lock(command, kind):
    return fcntl.fcntl(held, command, struct.pack('hhqqi4x', kind, 0, 0, 4711, 0))
libc.mmap.restype = ctypes.c_void_p
def mapped():
    address = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_PRIVATE, held.fileno(), ctypes.c_long(0))
    return address, ctypes.c_uint32.from_address(address).value
held = open(PATH)
"""
SENDER = """
wait('looked')
try:
    send()
except OSError:
    pass
tell('sent')
wait('looked again')
os._exit(0)
"""
RECEIVER = """
def seen():
    try:
        return look()
    except OSError as error:
        return error.errno
before = seen()
tell('looked')
wait('sent')
print('NOTHING' if seen() == before else 'CARRIED')
tell('looked again')
"""
# What one box does, and what the other one looks at.
CHANNELS = {
    "flock": (
        "fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB) or fcntl.flock(held, fcntl.LOCK_UN)",
    ),
    "POSIX lock": ("lock(fcntl.F_SETLK, fcntl.F_RDLCK)", "lock(fcntl.F_GETLK, fcntl.F_WRLCK)"),
    "lock of an open file": ("lock(37, fcntl.F_RDLCK)", "lock(36, fcntl.F_WRLCK)"),
    "dnotify": ("held.read(1)", "notified()"),
    "sysinfo": ("[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(8)]", "host_counters()"),
    "futex": ("threading.Thread(target=sleeps, daemon=True).start()", "wakes()"),
    "smaps": ("mapped()", "shared_kb()"),
}
LOOKS = """
hits = []
def notified():
    if not hits:
        signal.signal(signal.SIGIO, lambda number, frame: hits.append(number))
        hits.append(os.open(os.path.dirname(PATH), os.O_RDONLY))
        fcntl.fcntl(hits[0], 1026, 1 | 1 << 31)  # F_NOTIFY, DN_ACCESS, DN_MULTISHOT
    return len(hits)
def host_counters():
    room = ctypes.create_string_buffer(112)
    call(99, room)
    return struct.unpack_from('H', room, 80)[0] // 4
def sleeps():
    address, word = mapped()
    call(202, ctypes.c_void_p(address), 0, word, None)
def wakes():
    address, _ = mapped()
    for _ in range(50):
        if call(202, ctypes.c_void_p(address), 1, 1):
            return True
        time.sleep(0.01)
    return False
here = []
def shared_kb():
    if not here:
        here.append(mapped())
    found = open('/proc/self/smaps').read().split(PATH)[1]
    return re.search(r'Shared_Clean: +(\\d+)', found)[1]
"""
COUNTERS = """
def read(path):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return None
    finally:
        os.close(descriptor)
def files(top):
    for directory, below, names in os.walk(top):
        if directory == '/proc':
            below[:] = [name for name in below if not name.isdigit()]
        yield from (path for path in (f'{directory}/{name}' for name in names) if not os.path.islink(path))
texts = {}
def changes():
    if not texts:
        texts.update((path, read(path)) for top in ('/proc', '/sys') for path in files(top))
        return []
    # These are of the box's own namespace, or drawn at each read.
    own = ('/proc/sys/kernel/ns_last_pid', '/proc/sys/kernel/random/uuid')
    return [path for path, text in texts.items() if path not in own and '/cgroup/' not in path and read(path) != text]
def works():
    for number in range(100):
        open(f'/tmp/{number}', 'w').write('x' * 4096)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
"""
STILL_CARRY = ("futex", "smaps")


def test_every_call_that_the_filter_allows_is_known_to_carry_nothing():
    entries = json.loads(profile("seccomp.json").read_text())["syscalls"]
    allowed = {name for entry in entries if entry["action"] == "SCMP_ACT_ALLOW" for name in entry["names"]}
    groups = [group.split() for group in (OF_ONE_PROCESS, OF_OWN_DESCRIPTORS, OF_FILES, BY_ARGUMENT, REMAINING)]
    assert sorted(name for group in groups for name in group) == sorted(allowed)


async def exchange(cage, tmp_path, send, look, **options):
    """Return the receiver's answer, from a build box; the sender is in a run box, as a kernel is that has met a secret size."""
    place = tmp_path / f"meeting{len(list(tmp_path.iterdir()))}"
    place.mkdir()
    place.chmod(0o777)
    sender = f"{MEETING}{LOOKS}{COUNTERS}\ndef send():\n    {send}\n{SENDER}"
    receiver = f"{MEETING}{LOOKS}{COUNTERS}\ndef look():\n    return {look}\n{RECEIVER}"
    async with AsyncExitStack() as boxes:
        await boxes.enter_async_context(cage.live(sender, purpose=Purpose.RUN, out_dir=place, **options))
        box = await boxes.enter_async_context(cage.live(receiver, out_dir=place, **options))
        ended = await box.wait()
    return ended.output.decode().splitlines()


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_box_does_not_see_what_another_one_does(cage, tmp_path, channel):
    """The control: without the filter it sees it. What still carries does so in both, and is why nothing else runs next to secrets."""
    send, look = CHANNELS[channel]
    assert await exchange(cage, tmp_path, send, look) == ["CARRIED" if channel in STILL_CARRY else "NOTHING"]
    assert await exchange(cage, tmp_path, send, look, without=["seccomp"]) == ["CARRIED"]


async def test_no_file_of_proc_and_sys_counts_what_another_box_does(cage, tmp_path):
    """The control: with the host's own files some do."""
    code = ("works()", "print(*changes(), sep='\\n')")
    assert set(await exchange(cage, tmp_path, *code)) == {"", "NOTHING"}
    control = await exchange(cage, tmp_path, *code, without=["masked_proc"])
    assert {"/proc/vmstat", "/proc/uptime"} <= set(control)


async def test_programs_that_read_proc_find_what_they_parse(cage):
    """Cores and memory of the host, as C and Python programs ask for them."""
    asks = """
    fields = dict(line.split(':') for line in open('/proc/meminfo'))
    print(int(fields['MemTotal'].split()[0]) == int(fields['MemAvailable'].split()[0]) > 0)
    print(sum(line.startswith('cpu') for line in open('/proc/stat')) == 1 + os.sysconf('SC_NPROCESSORS_CONF'))
    print(os.cpu_count() == os.sysconf('SC_NPROCESSORS_ONLN') >= len(os.sched_getaffinity(0)) > 0)
    print(len(open('/proc/cpuinfo').read()) > 100, float(open('/proc/uptime').read().split()[0]) > 0)
    print(open('/proc/loadavg').read().split()[:3])
    """
    assert await cage.says(asks) == ["True", "True", "True", "True True", "['0.00', '0.00', '0.00']"]
