"""What one box could leave for the next: calls that tell or change which pages of a shared file are cached, each with its control."""

import platform

import pytest

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
