"""Files that a build leaves where its artifact should be (43 and 44 of README.md), each with its control.

`tests/unit/test_pickup.py` has the same without a box, with what no box can make: a device, a foreign file's second name, a swap while
it is read.
"""

import asyncio
import os
import threading

from grader.isolation.directories import box_output
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from tests.containment.conftest import HANG_S

SPECIAL = """
os.chdir(sys.argv[1])
attempt('fifo', lambda: os.mkfifo('fifo'))
attempt('socket', lambda: socket.socket(socket.AF_UNIX).bind('socket'))
attempt('directory', lambda: os.mkdir('directory'))
attempt('device', lambda: os.mknod('device', 0o20666, os.makedev(1, 5)))
"""


async def test_43_what_is_no_file_is_no_artifact_and_blocks_nobody(cage):
    """The pickup knows. The filter refuses devices only. The control: who opens the FIFO by name waits for a writer."""
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        lines = await cage.says(SPECIAL, out_dir=out, words=["{out}"])
        assert lines == ["fifo THROUGH None", "socket THROUGH None", "directory THROUGH None", "device DENIED EPERM"]
        async with asyncio.timeout(HANG_S):
            pickups = [await asyncio.to_thread(pick_up, out, name, limit_bytes=100) for name in ("fifo", "socket", "directory")]
        assert [refusal_of(pickup) for pickup in pickups] == [RefusalReason.NOT_A_FILE] * 3
        reader = threading.Thread(target=(out / "fifo").read_bytes, daemon=True)
        reader.start()
        reader.join(0.3)
        assert reader.is_alive()
        os.close(os.open(out / "fifo", os.O_WRONLY))
        reader.join()


def refusal_of(pickup):
    return pickup.reason if isinstance(pickup, Refusal) else None


LINKS = """
os.chdir(sys.argv[1])
for number, path in enumerate(('/etc/passwd', sys.executable, '/proc/1/environ')):
    attempt('foreign', lambda: os.link(path, f'foreign{number}'))
open('one', 'w').write('own')
attempt('own', lambda: os.link('one', 'artifact'))
"""


async def test_44_no_foreign_file_gets_a_name_and_an_own_one_has_one(cage):
    """A file outside is on another mount. The control: a second name of its own file is made, and by name it is read."""
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        lines = await cage.says(LINKS, out_dir=out, words=["{out}"])
        assert lines == ["foreign DENIED EXDEV"] * 3 + ["own THROUGH None"]
        assert refusal_of(pick_up(out, "artifact", limit_bytes=100)) is RefusalReason.HARD_LINK
        assert (out / "artifact").read_text() == "own"


SWAPPER = """
os.chdir(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    while True:
        for word in ('one', 'two'):
            with open('next', 'w') as file:
                file.write(word)
            os.rename('next', 'artifact')
time.sleep(60)
"""


async def test_44_an_artifact_that_is_swapped_all_the_time_is_taken_when_nobody_swaps(cage):
    """The control: while the box is alive, by name it is one file and then another."""
    with box_output(cage.settings, limit_bytes=1 << 20) as out:
        async with cage.live(SWAPPER, out_dir=out, words=["{out}"]):
            contents = set()
            async with asyncio.timeout(HANG_S):
                while len(contents) < 2:
                    await asyncio.sleep(0.01)
                    contents |= {(out / "artifact").read_text()} if (out / "artifact").exists() else set()
        facts = os.stat(out / "artifact")
        assert pick_up(out, "artifact", limit_bytes=100) in (b"one", b"two")
        await asyncio.sleep(0.1)
        assert (os.stat(out / "artifact").st_ino, os.stat(out / "artifact").st_mtime_ns) == (facts.st_ino, facts.st_mtime_ns)
