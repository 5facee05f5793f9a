"""Traces that one box could leave for the next: calls that tell or change which pages of a shared file are cached; with controls."""

import asyncio
import os
import platform
import sysconfig
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation.memory_toolchain import MemoryToolchain, MemoryToolchainUnavailable
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain_keeper import settle
from tests import fakes

# A file that every box has, of the host's toolchain.
PAGES = """
scratch = os.open('/tmp/scratch', os.O_RDWR | os.O_CREAT)
path = os.path.realpath(sys.executable)
def opened():
    return os.open(path, os.O_RDONLY)
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
room = ctypes.create_string_buffer(16)
vector = Vector(ctypes.addressof(room), 16)
def vectored(number, descriptor, flags):
    return call(number, descriptor, ctypes.byref(vector), 1, 0, 0, flags)
def mapped():
    area = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    found = ctypes.create_string_buffer(1)
    return call(27, ctypes.c_void_p(address), ctypes.c_size_t(4096), found)
def stated():
    area, found = (ctypes.c_uint64 * 2)(0, 4096), (ctypes.c_uint64 * 5)()
    return call(451, scratch, ctypes.byref(area), ctypes.byref(found), 0)
"""
CALLS = {
    "fadvise64": ("call(221, opened(), 0, 0, 4)", "EPERM"),  # POSIX_FADV_DONTNEED
    "mincore": ("mapped()", "ENOSYS"),
    "readahead": ("call(187, opened(), 0, 4096)", "ENOSYS"),
    "cachestat": ("stated()", "ENOSYS"),
    "preadv2": ("vectored(327, opened(), 8)", "EPERM"),  # RWF_NOWAIT
    "pwritev2": ("vectored(328, scratch, 2)", "EPERM"),  # RWF_DSYNC
}
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the calls are x86_64's")


@pytest.mark.parametrize("name", CALLS)
async def test_the_page_cache_is_neither_asked_nor_advised(cage, name):
    """The control: without the filter the call works."""
    asks, refused = CALLS[name]
    attack = f"{PAGES}\nattempt('{name}', lambda: {asks} >= 0)"
    assert await cage.says(attack) == [f"{name} DENIED {refused}"]
    answers = ([f"{name} THROUGH True"], [f"{name} DENIED EAGAIN"])  # EAGAIN: the page is not cached, which is what it asks
    assert await cage.says(attack, without=["seccomp"]) in answers


async def test_vectored_calls_without_flags_work(cage):
    """Some libraries call them so."""
    attack = f"{PAGES}\nattempt('read', lambda: vectored(327, opened(), 0))\nattempt('write', lambda: vectored(328, scratch, 0))"
    assert await cage.says(attack) == ["read THROUGH 16", "write THROUGH 16"]


COMPILES_AND_IMPORTS = """
import subprocess
sys.path[:0] = [one for one in PLACES if os.path.isdir(one)]
with open('/tmp/a.cpp', 'w') as source:
    source.write('#include <vector>\\n#include <thread>\\nint main() { return std::vector<int>(3).size() - 3; }')
made = subprocess.run(['g++', '-O2', '-pthread', '/tmp/a.cpp', '-o', '/tmp/a']).returncode
print('compiled', made, subprocess.run(['/tmp/a']).returncode)
import torch
print('torch', int(torch.ones(3).sum()))
"""
MOUNTS = """
IN_MEMORY = {'tmpfs', 'proc', 'sysfs', 'devpts', 'mqueue', 'cgroup', 'cgroup2', 'devtmpfs'}
for line in open('/proc/self/mountinfo'):
    left, _, right = line.partition(' - ')
    if right.split()[0] not in IN_MEMORY:
        print(left.split()[4])
"""
# Each box has its own of these: its link, and what the engine makes for every container.
OF_ONE_BOX = {"/", "/grader/link", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
ROOM = {"memory_bytes": 2 << 30, "tmp_bytes": 64 << 20, "process_count": 64, "open_file_count": 1024}


@pytest.fixture(scope="module")
def memory_toolchain_dir():
    """A copy of the toolchain in memory, as a server makes one."""
    boxes = fakes.FakeBoxes()
    with tempfile.TemporaryDirectory(prefix="grader-resident-") as place, asyncio.Runner() as runner:
        settings = BoxSettings(state_id=f"resident{os.getpid()}", runtime_dir=Path(place))
        resident = MemoryToolchain(settings, boxes, wanted=True, on_adoption=lambda: None, linger_s=0)
        try:
            runner.run(resident.ready())
        except MemoryToolchainUnavailable as error:
            pytest.skip(str(error))
        yield boxes.toolchain
        runner.run(resident.close())  # its keeper, or a server's, removes it


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_box_compiles_and_imports_torch_from_the_copy_in_memory(cage, memory_toolchain_dir):
    """The copy is complete, and nothing that all boxes see lies on disk. The control: without the copy the toolchain does."""
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    asks = f"PLACES = {places!r}\n{COMPILES_AND_IMPORTS}"
    on_disk = await cage.says(MOUNTS)
    assert "/usr" in on_disk
    cage.settings = replace(cage.settings, memory_toolchain_dir=memory_toolchain_dir)
    assert await cage.says(asks, limits=ROOM) == ["compiled 0 0", "torch 3"]
    assert set(await cage.says(MOUNTS)) <= {*OF_ONE_BOX, cage.attacker[1]}


MAPS = f"""
{MOUNTS}
for line in open('/proc/self/maps'):
    if not line.split()[3].startswith('00:'):
        print('mapped', line.split()[5])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_boxes_see_the_copy_from_when_it_is_adopted(cage, memory_toolchain_dir):
    """A server makes it while it serves. Nothing on disk is mapped then, neither by what forks boxes. The control: before, it is."""

    async def printed():
        async with isolation.start(cage.spec(MAPS)) as box:
            return {*(await box.wait()).output.decode().splitlines()}

    isolation = cage.isolation(extra_binds=(cage.attacker,))
    before = await printed()
    assert "/usr" in before and any(line.startswith("mapped /") for line in before)
    await isolation.adopt(memory_toolchain_dir, "of the files")
    assert await printed() <= {*OF_ONE_BOX, cage.attacker[1]}
    if cage.name == "forks":  # its parent, before somebody looks for what is left
        await isolation.close()


LOOKS_FOR_NAMES = """
for number in range(20000):
    try:
        os.stat(f'/usr/lib/absent-{time.monotonic_ns()}-{number}')
    except FileNotFoundError:
        pass
print('looked')
"""


def names_known_to_be_absent():
    """How many the kernel remembers, of all file systems."""
    return int(Path("/proc/sys/fs/dentry-state").read_text().split()[4])


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_names_that_are_not_there_are_not_remembered(cage, memory_toolchain_dir):
    """A later box is told faster that there is no file, where an earlier one has asked: locked pages of files on disk would not do.

    The control: of the directory on disk every name is.
    """
    before = names_known_to_be_absent()
    assert await cage.says(LOOKS_FOR_NAMES) == ["looked"]
    assert names_known_to_be_absent() - before > 15_000
    cage.settings = replace(cage.settings, memory_toolchain_dir=memory_toolchain_dir)
    before = names_known_to_be_absent()
    assert await cage.says(LOOKS_FOR_NAMES) == ["looked"]
    assert names_known_to_be_absent() - before < 5_000


MARKS = """
BITS = '0110100110010110'
file = os.open(os.path.realpath('/usr/lib/x86_64-linux-gnu/libstdc++.so.6'), os.O_RDONLY)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def mapped(number, page_count):
    address = libc.mmap(None, 4096 * page_count, 3, 2, file, (32 * number + 2 - page_count) * 4096)
    ctypes.string_at(address + 4096 * (page_count - 1), 1)
    return address
"""
READS = (
    MARKS
    + """
for number, bit in enumerate(BITS):
    if bit == '1':
        os.pread(file, 4096, (32 * number + 1) * 4096)
"""
)
CLEARS = (
    MARKS
    + """
for number, bit in enumerate(BITS):
    if bit == '1':
        mapped(number, 1)
attempt('clear', lambda: open('/proc/self/clear_refs', 'w').write('1'))
"""
)
# A child has used none of its pages itself. Pages before them were written to: else a child begins without any.
LOOKS_FOR_MARKS = (
    MARKS
    + """
import re
areas = [mapped(number, 2) for number in range(len(BITS))]
for area in areas:
    ctypes.memset(area, 1, 1)
if os.fork() == 0:
    sizes = [re.search(rf'(?ms)^0*{area:x}-.*?^Referenced: +(\\d+)', open('/proc/self/smaps').read())[1] for area in areas]
    print(''.join('01'[size != '0'] for size in sizes), flush=True)
    os._exit(0)
os.wait()
"""
)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_using_a_page_leaves_no_mark(cage, memory_toolchain_dir):
    """The control: where a box may write to its /proc, it takes the marks away, and the next box can tell."""
    if cage.name == "docker":
        pytest.skip("a container's /proc can be written to; docs/security.md says so")
    cage.settings = replace(cage.settings, memory_toolchain_dir=memory_toolchain_dir)
    assert await cage.says(LOOKS_FOR_MARKS) == ["1" * 16]
    assert await cage.says(READS) == []
    assert await cage.says(CLEARS) == ["clear DENIED EROFS"]
    assert await cage.says(LOOKS_FOR_MARKS) == ["1" * 16]
    assert await cage.says(CLEARS, without=["masked_proc"]) == ["clear THROUGH 1"]
    assert await cage.says(LOOKS_FOR_MARKS) == ["1001011001101001"]
    for path in memory_toolchain_dir.glob("usr/lib/x86_64-linux-gnu/libstdc++.so.6*"):
        settle(str(path))


async def test_reading_leaves_no_time_of_access(cage):
    """The control: on the box's own scratch, reading an old file changes it."""
    attack = """
def changed(path):
    before = os.stat(path).st_atime_ns
    open(path, 'rb').read(1)
    return os.stat(path).st_atime_ns != before
print('shared', changed(os.path.realpath(sys.executable)))
open('/tmp/own', 'w').write('x')
os.utime('/tmp/own', (1, 1))
print('own', changed('/tmp/own'))
"""
    assert await cage.says(attack) == ["shared False", "own True"]


async def test_cgroup_counters_begin_anew(cage):
    """The cgroup that a box sees is its own: no path, so no counters of another box. The control: the host's own has a path."""
    assert [line.rsplit(":", 1)[1] for line in await cage.says("print(open('/proc/self/cgroup').read().strip())")][:1] == ["/"]
