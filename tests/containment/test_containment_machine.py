"""The controls of `python -m tools.containment`: what is left on purpose is found and named, each kind of it, and what is gone is not."""

import ctypes
import json
import os
import secrets
import subprocess
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

from grader.isolation.directories import hold_slot, remove_tree
from tools import containment

LIBC = ctypes.CDLL(None, use_errno=True)
MARK = f"GRADER_TEST_MARK={secrets.token_hex(8)}"
LEAVES = "import pathlib\ndef test_x(): pathlib.Path({}).touch()\n"


def listed(lines, word):
    return [line for line in lines if word in line]


def test_a_file_is_named_and_what_is_below_a_directory_of_ours_too(tmp_path):
    """The control of the control: a directory with another name is listed, and no more."""
    slots = tmp_path / "slots"
    for name in ("grader-x/below", "other/below", "slots/0.lock"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    entries = set(containment.files([tmp_path], slots))
    assert entries == {f"file {tmp_path / name}" for name in ("grader-x", "grader-x/below", "other")}


def test_directories_without_end_do_not_stop_the_look(tmp_path):
    """The part that is seen of them is enough to name them."""
    deep = tmp_path / "grader-x" / Path(*("d" * 1500))
    for directory in reversed([deep, *deep.parents][:1501]):
        directory.mkdir(exist_ok=True)
    assert len(list(containment.files([tmp_path], tmp_path / "slots"))) == 1 + containment.DEPTH
    remove_tree(tmp_path / "grader-x")  # pytest itself cannot


def test_a_process_that_outlives_its_run_is_named():
    """By the mark in its environment; one without it is nobody's."""
    for environment, expected in ((MARK, True), ("GRADER_TEST_MARK=another", False)):
        name, _, value = environment.partition("=")
        with subprocess.Popen(["/bin/cat"], env={**os.environ, name: value}, stdin=PIPE, stdout=PIPE, bufsize=0) as cat:
            assert cat.stdin and cat.stdout
            cat.stdin.write(b"x")
            assert cat.stdout.read(1) == b"x"  # it has its environment only once it runs
            assert bool(listed(containment.processes(MARK), f"process {cat.pid} of uid ")) is expected
            cat.kill()
    assert not listed(containment.processes(MARK), f"process {cat.pid} of uid ")


def test_a_process_of_a_boxs_uid_is_named_whatever_its_environment(root_only):
    """And whoever is dead but was never reaped: its number is not free."""
    uid = containment.BOX_UIDS[-1]
    with subprocess.Popen(["/bin/sleep", "60"], env={}, user=uid, group=uid, extra_groups=[]) as sleeper:
        wanted = f"process {sleeper.pid} of uid {uid}: sleep"
        assert wanted in containment.processes(MARK)
        sleeper.kill()
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
        assert wanted in containment.processes(MARK)
    assert wanted not in containment.processes(MARK)


def test_system_v_memory_is_named():
    number = LIBC.shmget(0, ctypes.c_size_t(4096), 0o600)
    assert number >= 0
    wanted = f"shm {number} of uid {os.geteuid()}"
    try:
        assert wanted in containment.system_v()
    finally:
        LIBC.shmctl(number, 0, None)
    assert wanted not in containment.system_v()


def test_a_lease_is_named_while_it_is_held(tmp_path):
    """Afterwards the lock file is there and says nothing."""
    with hold_slot(tmp_path):
        assert list(containment.leases(tmp_path)) == [f"lease {tmp_path / '0.lock'}"]
    assert list(tmp_path.iterdir()) == [tmp_path / "0.lock"]
    assert list(containment.leases(tmp_path)) == []


def test_a_mount_and_a_cgroup_are_named(tmp_path, root_only):
    """Two mounts over each other are two."""
    for _ in range(2):
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", tmp_path], capture_output=True, check=False)
        if mount.returncode:
            pytest.skip("may not mount here")
    try:
        assert len(listed(containment.mounts(), f"mount {tmp_path} number ")) == 2
    finally:
        subprocess.run(["umount", tmp_path], check=True)
        subprocess.run(["umount", tmp_path], check=True)
    assert not listed(containment.mounts(), str(tmp_path))
    (tmp_path / "memory" / "left").mkdir(parents=True)  # as the kernel shows one: a directory
    assert set(containment.cgroups(tmp_path)) == {"cgroup memory", "cgroup memory/left"}


class Engine:
    """An engine that has one container, which has ended, and a volume."""

    def __init__(self, root):
        self.root = root

    def containers(self, *, all):
        assert all, "one that has ended is left, too"
        return [{"Id": "c0ffee" * 10, "Names": ["/grader-left"]}]

    def volumes(self):
        return {"Volumes": [{"Name": "v"}]}

    def info(self):
        return {"DockerRootDir": str(self.root)}


def test_a_container_a_volume_and_a_layer_are_named(tmp_path):
    """Of an engine in a fake; below is a real one."""
    (tmp_path / "overlay2" / "layer").mkdir(parents=True)
    lines = [line for line in containment.containers(Engine(tmp_path)) if not line.startswith("file /run/")]
    assert lines == ["container c0ffeec0ffee /grader-left", "volume v", f"file {tmp_path / 'overlay2' / 'layer'}"]
    assert list(containment.containers(None)) == []


@pytest.mark.docker
async def test_a_container_and_all_that_the_engine_keeps_of_it_are_named(docker_cage):
    """The listing has what a live box is made of; of a box that is gone, not a line."""
    look = partial(containment.look_around, MARK)
    async with docker_cage.live("time.sleep(60)") as box:
        lines = look()
        (container,) = [line.split()[1] for line in lines if line.startswith("container ") and docker_cage.settings.run_id in line]
        kinds = {line.split()[0] for line in lines if container in line or f"of uid {box.uid}:" in line}
    assert kinds == {"container", "file", "process", "cgroup"}
    assert containment.left(frozenset(), lambda: frozenset(listed(look(), container))) == ()


def shelf(place, _):
    """Look at a machine with one directory and nobody else in it."""
    slots = place / "slots"
    return lambda: frozenset([*containment.files([place], slots), *containment.leases(slots)])


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "shelf"
    directory.mkdir()
    return directory


def test_a_run_that_leaves_nothing_is_clean_and_one_that_leaves_something_is_not(place):
    """A second run is compared with what was there before the first, so that what the first left is not taken for granted."""
    passed = containment.Run(counts={"docker passed": 1})
    steps = iter([lambda: None, (place / "kept").touch, lambda: None, (place / "kept").unlink])

    def suite():
        next(steps)()
        return passed

    look = partial(containment.left, settle_s=0.0)
    assert look(frozenset(), shelf(place, MARK)) == ()
    runs = [*containment.repeat(4, suite, shelf(place, MARK), frozenset(), settle_s=0.0)]
    assert [run.leftovers for run in runs] == [(), (f"file {place / 'kept'}",), (f"file {place / 'kept'}",), ()]
    assert [run.clean for run in runs] == [True, False, False, True]


def test_what_was_there_before_does_not_count(place):
    (place / "before").touch()
    look = shelf(place, MARK)
    before = look()
    (place / "theirs").touch()
    assert containment.left(before, look, settle_s=0.0) == (f"file {place / 'theirs'}",)


def test_what_goes_away_a_moment_later_has_not_stayed(place):
    """The engine takes a container's directory down after it has said that the container is gone."""
    looks = iter([{"file a"}, {"file a"}, set()])
    assert containment.left(frozenset(), lambda: frozenset(next(looks))) == ()


def test_who_comes_and_goes_is_told_from_what_stays():
    """Others' boxes: at no moment is there nothing, but only one thing is there at every moment."""
    moments = ({"file left", f"container {number}"} for number in range(1000))
    assert containment.left(frozenset(), lambda: frozenset(next(moments)), settle_s=0.5) == ("file left",)


def test_a_run_in_which_nothing_passed_is_not_clean():
    """A suite that skips everything leaves nothing behind."""
    for counts, clean in (({}, False), ({"docker skipped": 5}, False), ({"docker passed": 1, "other skipped": 1}, True)):
        assert containment.Run(counts=counts).clean is clean
    assert not containment.Run(counts={"docker passed": 1}, failed=("test_x",)).clean


def test_each_isolation_has_its_own_counts():
    xml = """<testsuites><testsuite>
    <testcase name="test_01[docker]"/><testcase name="test_35[docker-ptrace]"/><testcase name="test_01[bubblewrap]"><failure/></testcase>
    <testcase name="test_01[bubblewrap]"><error/></testcase><testcase name="test_x"><skipped message="needs root"/></testcase>
    </testsuite></testsuites>"""
    outcome = containment.counted(ElementTree.fromstring(xml).iter("testcase"))
    assert outcome.counts == {"docker passed": 2, "bubblewrap failed": 2, "other skipped": 1}
    assert (outcome.failed, outcome.skipped) == (("test_01[bubblewrap]",), ("test_x: needs root",))


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [False, True])
def test_the_exit_code_says_whether_something_stayed(place, tmp_path, capfd, leaves):
    """The whole command, with a suite of one test."""
    suite, report_path = tmp_path / "test_suite.py", tmp_path / "told.json"
    suite.write_text(LEAVES.format(repr(str(place / "kept" if leaves else tmp_path / "elsewhere"))))
    words = ["--repeat", "1", "--settle-s", "0", "--json", str(report_path), str(suite)]
    code = containment.main(words, machine=partial(shelf, place))
    report = json.loads(report_path.read_text())
    assert code == int(leaves)
    assert report["runs"][0]["leftovers"] == ([f"file {place / 'kept'}"] if leaves else [])
    assert (f"- `file {place / 'kept'}`" in capfd.readouterr().out) is leaves


def test_where_somebody_else_grades_nothing_is_run(place, capfd):
    """Their boxes come and go, and could not be told from ours."""
    with hold_slot(place / "slots"):
        assert containment.main(["--isolation", "bubblewrap", "/nonexistent"], machine=partial(shelf, place)) == 2
    output = capfd.readouterr()
    assert "0.lock" in output.err and "-m pytest" not in output.err
    assert output.out == ""
