"""Attacks 42 to 45: what a build leaves in its output directory, and the controls that show what plain `open` would do."""

import os
import socket
import threading
from pathlib import Path

import pytest

from grader.isolation.directories import box_output
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from grader.isolation.settings import BoxSettings


def refusal_of(directory, name="artifact", limit_bytes=1000):
    refusal = pick_up(directory, name, limit_bytes=limit_bytes)
    assert isinstance(refusal, Refusal)
    return refusal.reason


@pytest.mark.parametrize("size", [0, 1000])
def test_a_plain_file_is_taken_whole(tmp_path, size):
    (tmp_path / "artifact").write_bytes(b"\0" * size)
    assert pick_up(tmp_path, "artifact", limit_bytes=size) == b"\0" * size


def sparse_giant(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (lambda path: None, RefusalReason.MISSING),
        (lambda path: path.write_bytes(b"x" * 1001), RefusalReason.TOO_LARGE),
        (sparse_giant, RefusalReason.TOO_LARGE),  # without reading it
        (lambda path: path.mkdir(), RefusalReason.NOT_A_FILE),
    ],
    ids=["missing", "over the limit", "sparse giant", "directory"],
)
def test_what_is_no_small_file_is_left(tmp_path, leave, reason):
    leave(tmp_path / "artifact")
    assert refusal_of(tmp_path) is reason


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        pytest.param(Path.symlink_to, RefusalReason.SYMLINK, id="symbolic"),  # without O_NOFOLLOW it is read
        pytest.param(Path.hardlink_to, RefusalReason.HARD_LINK, id="hard"),  # without the count of names it is read
    ],
)
def test_a_link_to_a_foreign_file_is_refused(tmp_path, link, reason):
    (tmp_path / "secret").write_text("expected output")
    link(tmp_path / "artifact", tmp_path / "secret")
    assert refusal_of(tmp_path) is reason
    assert (tmp_path / "artifact").read_text() == "expected output", "the control: by name it is read"


def test_a_directory_that_became_a_symlink_is_not_entered(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "artifact").write_text("expected output")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        pick_up(tmp_path / "out", "artifact", limit_bytes=1000)
    assert (tmp_path / "out" / "artifact").read_text() == "expected output", "the control: by path it is read"


def test_a_fifo_is_refused_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "artifact")
    assert refusal_of(tmp_path) is RefusalReason.NOT_A_FILE
    reader = threading.Thread(target=(tmp_path / "artifact").read_bytes, daemon=True)
    reader.start()
    reader.join(0.3)
    assert reader.is_alive(), "the control: without O_NONBLOCK the reader hangs"
    os.close(os.open(tmp_path / "artifact", os.O_WRONLY))
    reader.join()


def test_a_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "artifact"))
        assert refusal_of(tmp_path) is RefusalReason.NOT_A_FILE


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")
def test_a_device_is_refused(tmp_path):
    os.mknod(tmp_path / "artifact", 0o20666, os.makedev(1, 5))
    assert refusal_of(tmp_path) is RefusalReason.NOT_A_FILE
    with (tmp_path / "artifact").open("rb") as zeros:
        assert zeros.read(10) == bytes(10), "the control: opened by name it is read for ever"


def test_a_file_that_grows_while_it_is_read_is_cut_off(tmp_path, monkeypatch):
    """The size is checked on what is read, not only on what fstat said."""
    (tmp_path / "artifact").write_bytes(b"x" * 1000)
    honest = os.fstat

    def before_it_grew(descriptor):
        facts = honest(descriptor)
        with (tmp_path / "artifact").open("ab") as file:
            file.write(b"y" * 5000)
        return facts

    monkeypatch.setattr(os, "fstat", before_it_grew)
    assert refusal_of(tmp_path) is RefusalReason.TOO_LARGE


def test_an_artifact_swapped_while_it_is_read_does_not_change_what_is_read(tmp_path, monkeypatch):
    """Read by descriptor: another file under the same name is another file."""
    (tmp_path / "artifact").write_bytes(b"checked")
    (tmp_path / "other").write_bytes(b"swapped")
    honest = os.fstat

    def then_swap(descriptor):
        facts = honest(descriptor)
        if (tmp_path / "other").exists():
            (tmp_path / "other").rename(tmp_path / "artifact")
        return facts

    monkeypatch.setattr(os, "fstat", then_swap)
    assert pick_up(tmp_path, "artifact", limit_bytes=1000) == b"checked"
    assert (tmp_path / "artifact").read_bytes() == b"swapped", "the control: by name the second look sees another file"


@pytest.mark.parametrize("name", ["", ".", "..", "../artifact", "a/b", "/etc/passwd", "a\0b"])
def test_only_names_in_the_directory_are_names(tmp_path, name):
    assert refusal_of(tmp_path, name) is RefusalReason.BAD_NAME


def test_pick_up_leaves_no_descriptor_open(tmp_path):
    (tmp_path / "artifact").symlink_to("x")
    before = os.listdir("/proc/self/fd")
    for name in ("artifact", "missing"):
        refusal_of(tmp_path, name)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_the_mounted_output_directory_follows_no_symlink_and_is_bounded(tmp_path):
    (tmp_path / "secret").write_text("expected output")
    settings = BoxSettings(state_id="a", runtime_dir=tmp_path)
    with box_output(settings, limit_bytes=1 << 20, inode_count=64) as directory:
        (directory / "artifact").symlink_to(tmp_path / "secret")
        with pytest.raises(OSError, match="symbolic"):
            (directory / "artifact").read_text()
        with pytest.raises(OSError, match="No space"):
            (directory / "big").write_bytes(bytes(2 << 20))
        (directory / "big").unlink()
        with pytest.raises(OSError, match="No space"):
            for number in range(100):
                (directory / str(number)).touch()
    assert not Path(directory).exists()
    assert str(directory) not in Path("/proc/self/mounts").read_text()
