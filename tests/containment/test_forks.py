"""Commands of boxes that a parent forks: confined like those that are started, and told nothing by the one before."""

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation import IsolationBroken, Purpose, forks
from grader.isolation.directories import FIRST_UID
from sandbox.protocol import wire
from tests.containment.conftest import caged, usable
from tests.harness.grading import grader, load_problem

pytestmark = [pytest.mark.forks, pytest.mark.skipif(os.geteuid() != 0, reason="a parent takes the uids of its boxes, which needs root")]

ADD = (Path(__file__).parents[2] / "kernels_examples" / "vector_add" / "grid_stride.cu").read_text("utf-8")
STATE = r"""
import json, resource
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines())
changing = ("Vm", "Rss", "Hugetlb", "Name", "Pid", "Tgid", "Ngid", "PPid", "TracerPid", "NS", "Threads", "FDSize", "State", "SigCgt",
            "voluntary", "nonvoluntary")
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(json.dumps({
    **{name: value for name, value in status.items() if not name.startswith(changing)},
    "threads": status["Threads"], "depth": len(status["NStgid"].split()),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "mounts": [(words[4], words[5], words[words.index("-") + 1]) for words in mounts],
    "environment": dict(os.environ), "directory": os.getcwd(), "descriptors": sorted(os.listdir("/proc/self/fd")),
    "oom": open("/proc/self/oom_score_adj").read(), "cgroups": open("/proc/self/cgroup").read(),
    "host": os.uname().nodename, "nice": os.nice(0), "scheduler": os.sched_getscheduler(0), "processors": sorted(os.sched_getaffinity(0)),
    "prctl": [libc.prctl(option, 0, 0, 0, 0) for option in (3, 7, 27)],  # dumpable, keep capabilities, secure bits
    "interrupts": [str(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ)],
    "input": os.readlink("/proc/self/fd/0"), "mine": os.stat("/proc/self/environ").st_uid == os.getuid(),
    "namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")},
}))
"""
# What every child inherits of its parent, in pieces, so that the text of it is nowhere else.
PARENT = """
import os, random, socket, sys
KNOWN, OWN = bytes(byte ^ 85 for byte in range(150, 190)), random.Random()
random.random()
def preload(arguments):
    global FACTS
    FACTS = arguments[0] and eval(arguments[1], {"os": os, "socket": socket, "attempted": attempted}) if arguments[1:] else None
def attempted(attack):
    try:
        attack()
    except OSError as error:
        return error.errno
def main(arguments):
    sys.argv = ["-c", *arguments[2:]]
    exec(compile(arguments[0], "attack", "exec"), {"__name__": "__main__", "parent": sys.modules[__name__]})
    return 0
"""
SCAN = """
def count(pattern):
    copies = 0
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in open("/proc/self/maps"):
            first, last = (int(word, 16) for word in line.split()[0].split("-"))
            try:
                memory.seek(first)
                copies += sum(memory.read(last - first).count(pattern) for _ in (0,))
            except (OSError, OverflowError, ValueError):
                pass
    return copies
mark = bytes(byte ^ 90 for byte in range(60, 100))
"""


@pytest.fixture
async def cage(cage_checks):
    """The cage of forked boxes; its parent module is PARENT."""
    await usable("forks", cage_checks)
    async for instance in caged("forks"):
        Path(instance.attacker[0]).write_text(PARENT)
        yield instance


async def say(cage, attack, *words, count=1, binds=(), **protections):
    """Return the JSON of boxes that one isolation starts one after the other."""
    isolation = cage.isolation(extra_binds=(cage.attacker, *binds), **protections)
    answers = []
    for _ in range(count):
        async with isolation.start(cage.spec(attack, purpose=Purpose.RUN, words=words)) as box:
            ended = await box.wait()
        answers.append(json.loads(ended.output))
    await isolation.close()
    return answers


async def started(cage, attack, **protections):
    """Return the output of a box whose command is started."""
    cage.name = "bubblewrap"
    try:
        async with cage.isolation(extra_binds=(cage.attacker,), **protections).start(cage.spec(attack, purpose=Purpose.RUN)) as box:
            return json.loads((await box.wait()).output)
    finally:
        cage.name = "forks"


async def test_it_has_no_right_more_than_a_command_that_is_started(cage):
    """In nothing that the kernel says of a process it differs, and it has no namespace of its parent or of the host."""
    (forked,), plain = await say(cage, STATE), await started(cage, STATE)
    mine = {name: os.readlink(f"/proc/self/ns/{name}") for name in forked["namespaces"] if not name.startswith("time")}
    for state in (forked, plain):
        assert not set(state.pop("namespaces").values()) & set(mine.values())
    assert forked == plain
    assert forked["Seccomp"] == "2" and forked["CapBnd"] == "0000000000000000" and forked["NoNewPrivs"] == "1"


@pytest.mark.parametrize(("protection", "field"), [("drop_capabilities", "CapEff"), ("seccomp", "Seccomp"), ("rlimits", "limits")])
async def test_each_step_of_its_confinement_is_needed(cage, protection, field):
    """The control: without a step it has what the step takes, and so has the command that is started."""
    (without,), (confined,) = await say(cage, STATE, **{protection: False}), await say(cage, STATE)
    assert without[field] != confined[field]
    assert without[field] == (await started(cage, STATE, **{protection: False}))[field]


async def test_a_child_has_the_arguments_of_its_own_box(cage):
    """Next to its parent's, which every child has."""
    ended = await cage.run("import sys; print(sys.argv[1:])", words=("1 + 1",), fork_arguments=("own", "words"))
    assert ended.output.decode().strip() == "['own', 'words']"


async def test_a_parent_is_confined_before_it_imports(cage):
    """A parent may take other uids, and nothing else that is root's: it sees what a box sees, has no network, and may not signal others."""
    facts = """{
        "status": {line.split(":")[0]: line.split()[1:] for line in open("/proc/self/status")},
        "write": attempted(lambda: open("/usr/trace", "w")), "shadow": attempted(lambda: open("/etc/shadow")),
        "signal": attempted(lambda: os.kill(1, 0)), "network": [name for _, name in socket.if_nameindex()],
        "environment": sorted(os.environ), "host": os.path.exists(PLACE),
        "checkout": attempted(lambda: open("/tmp/checkout/file"))}"""
    binds = [(cage.attacker[0], "/tmp/checkout/file")]  # of which it made the directory while it was root
    (parent,) = await say(cage, "import json; print(json.dumps(parent.FACTS))", facts.replace("PLACE", repr(str(cage.place))), binds=binds)
    status = parent["status"]
    assert status["CapEff"] == status["CapPrm"] == [f"{1 << 6 | 1 << 7:016x}"]
    assert len({*status["Uid"], *status["Gid"]}) == 1 and int(status["Uid"][0]) >= FIRST_UID and not status["Groups"]
    assert parent["write"] and parent["shadow"] and parent["signal"] and not parent["host"] and parent["checkout"] is None
    assert parent["network"] == ["lo"] and parent["environment"] == sorted((await started(cage, STATE))["environment"])


async def test_a_child_knows_nothing_of_the_child_before(cage):
    """All that it leaves is gone, and no copy of what it had in memory is in that of the next one, which finds what the parent had."""
    attack = f"""{SCAN}
import json, random, tempfile
state = {{
    "before": count(mark), "parents": count(parent.KNOWN), "marked": hasattr(parent, "MARK"),
    "files": os.listdir("/tmp") + os.listdir("/dev/shm"), "segment": libc.shmget(4711, 4096, 0),
    "shown": sorted(name for name in os.listdir("/proc") if name.isdigit() and name not in ("1", str(os.getpid()))),
    "environment": os.environ.get("MARK"), "umask": os.umask(0), "nice": os.nice(0), "directory": os.getcwd(),
}}
parent.MARK = [bytes(bytearray(mark)) for _ in range(1000)]
state["after"] = count(mark)
os.environ["MARK"] = "mark"
os.nice(5)
for directory in ("/tmp", "/dev/shm"):
    open(directory + "/mark", "w").write("mark")
libc.shmget(4711, 4096, 0o1666)
os.chdir("/dev/shm")
print(json.dumps(state))
"""
    first, second = await say(cage, attack, count=2)
    assert first.pop("after") >= 1000 and second.pop("after") >= 1000
    assert first.pop("parents") and second.pop("parents")
    assert first == second and first["before"] <= 2 and first["files"] == [] and first["segment"] == -1


async def test_what_is_random_is_drawn_anew(cage):
    """The control is a generator of the parent's that nobody knows of: all children have the same."""
    attack = "import json, random\nprint(json.dumps([random.random(), parent.OWN.random()]))"
    (first, parent_draw), (second, same) = await say(cage, attack, count=2)
    assert first != second and parent_draw == same


async def test_boxes_of_a_parent_share_the_layout_of_its_memory(cage, monkeypatch):
    """Until it is replaced. This is what a child learns of the next (docs/security.md)."""
    monkeypatch.setattr(forks, "FORK_LIMIT", 2)
    attack = "import json\nprint(json.dumps([id(parent), ctypes.cast(libc.malloc, ctypes.c_void_p).value, hash('grader')]))"
    first, second, third = await say(cage, attack, count=3)
    assert first == second and first != third


async def test_nothing_that_a_child_kills_is_its_parent_or_another_box(cage):
    """The child signals all that it may, as often as it likes; the next box has the same parent."""
    attack = """
for pid in (-1, 0, *range(3, 400)):
    attempt("kill", lambda: os.kill(pid, 9) if pid else os.killpg(0, 0))
for pid in range(2, 400):
    if pid != os.getpid():
        try:
            os.pidfd_open(pid)
            print("FOUND", pid)
        except OSError:
            pass
print("parent", os.getppid())
"""
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    async with isolation.start(cage.spec("time.sleep(600)")) as second_box:
        with cage.in_another_slot():
            outputs = []
            for _ in range(2):
                async with isolation.start(cage.spec(attack)) as box:
                    outputs.append((await box.wait()).output.decode())
        ended, _ = await asyncio.wait([asyncio.ensure_future(second_box.wait())], timeout=0.2)
        assert not ended
    assert all("FOUND" not in output and "parent 0" in output for output in outputs)
    await isolation.close()


async def test_a_parent_that_died_is_replaced(cage):
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    pids = []
    for _ in range(2):
        async with isolation.start(cage.spec("print(6 * 7)")) as box:
            assert (await box.wait()).output == b"42\n"
        (parent,) = isolation._parents._parents.values()
        pids.append(parent)
        await kill_parents(cage)
        await asyncio.wait_for(parent.value.result()[1].wait(), timeout=60)
    assert pids[0] is not pids[1]
    await isolation.close()


async def test_a_parent_that_cannot_import_is_not_needed(cage):
    """The command is started instead."""
    Path(cage.attacker[0]).write_text("raise ImportError('no')")
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    for _ in range(2):
        async with isolation.start(cage.spec("print(6 * 7)")) as box:
            assert (await box.wait()).output == b"42\n"
    await isolation.close()
    Path(cage.attacker[0]).write_text(PARENT)


async def test_gradings_one_after_the_other_have_boxes_of_one_parent():
    async with grader(isolation="bubblewrap", lanes=(), device="emulated", warm_count=0) as grading:
        for _ in range(3):
            graded = await grading.grade(load_problem("vector_add"), ADD, language="cuda", mode=wire.Mode.TEST)
            assert graded.verdict == "ACCEPTED", graded.explanation
        (parent,) = grading.fleet.isolation._parents._parents.values()
        assert parent._use_count == 3


async def test_a_parent_that_hangs_ends_with_its_box(cage, monkeypatch):
    """Without a cgroup there is nothing else to find it by: it has no label, its uid is no box's, and its own first process is gone."""
    monkeypatch.setattr(forks, "IMPORT_S", 2)
    Path(cage.attacker[0]).write_text("import time\ntime.sleep(600)")
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    isolation._cgroups.usable = False
    async with isolation.start(cage.spec("print(6 * 7)")) as box:
        assert (await box.wait()).output == b"42\n"
    assert cage.leftovers() == []
    await isolation.close()
    Path(cage.attacker[0]).write_text(PARENT)


async def test_what_boxes_use_is_not_their_parents(cage):
    """Where memory is watched: together they have more than one may have, and their processes descend from the parent."""
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    isolation._cgroups.usable = False
    spec = cage.spec("block = b'x' * (100 << 20)\ntime.sleep(1)\nprint(len(block))")
    with cage.in_another_slot():
        async with isolation.start(spec) as first, isolation.start(replace(spec, box_id=f"{spec.box_id}b", slot=cage.slot)) as second:
            (parent,) = isolation._parents._parents.values()
            assert [(await box.wait()).output for box in (first, second)] == [b"104857600\n"] * 2
    assert not parent.value.result()[1].ended
    await isolation.close()


async def test_a_command_that_is_never_forked_is_no_submissions_fault(cage):
    """The box is broken, and the next one is started."""
    isolation = cage.isolation(extra_binds=(cage.attacker,))
    async with isolation.start(cage.spec("print(6 * 7)")) as box:
        assert (await box.wait()).output == b"42\n"
    for pid in cage.leftovers():
        os.kill(pid, signal.SIGSTOP)
    async with isolation.start(cage.spec("print(6 * 7)", limits={"wall_s": 2.0})) as box:
        with pytest.raises(IsolationBroken, match="did not come up"):
            await box.wait()
    async with isolation.start(cage.spec("print(6 * 7)")) as box:  # of the same parent, which is not asked again
        assert (await box.wait()).output == b"42\n"
    await kill_parents(cage)
    await isolation.close()


async def kill_parents(cage):
    for pid in cage.leftovers():
        os.kill(pid, signal.SIGKILL)
