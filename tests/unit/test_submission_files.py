"""The directory of files that submissions left: bounded, by digest, and no way out of it."""

import hashlib
import os

import pytest

from grader.artifacts import SubmissionFiles


def submission_files(tmp_path, limit_bytes=1 << 20):
    return SubmissionFiles(tmp_path / "files", limit_bytes)


def test_a_file_is_kept_once_under_its_digest(tmp_path):
    store = submission_files(tmp_path)
    digest = store.keep(b"text")
    assert digest == store.keep(b"text") == hashlib.sha256(b"text").hexdigest()
    (path,) = store.directory.iterdir()
    assert path.name == digest and path.stat().st_mode & 0o077 == 0 and store.read(digest) == b"text" and store.holds(digest)


def test_the_oldest_go_first_and_what_is_too_large_is_not_kept(tmp_path):
    store = submission_files(tmp_path, 250)
    digests = [store.keep(bytes([number]) * 100) for number in range(3)]
    for number, digest in enumerate(digests[1:]):
        os.utime(store.directory / digest, ns=(number, number))
    last = store.keep(b"x" * 100)
    assert store.keep(b"y" * 251) is None
    assert store.read(last) == b"x" * 100 and sum(path.stat().st_size for path in store.directory.iterdir()) <= 250
    assert store.read(digests[1]) is None and not store.holds(digests[1])


@pytest.mark.parametrize("digest", ["../secret", "", "a" * 63, "A" * 64, f"{'a' * 64}/../../secret", "/etc/passwd"])
def test_only_a_digest_is_looked_up(tmp_path, digest):
    """The control: a digest that is there is read."""
    (tmp_path / "secret").write_text("secret")
    store = submission_files(tmp_path)
    assert store.read(store.keep(b"a")) == b"a"
    assert store.read(digest) is None and not store.holds(digest)


def test_a_link_or_damaged_bytes_are_not_read(tmp_path):
    store, secret = submission_files(tmp_path), tmp_path / "secret"
    secret.write_bytes(b"secret")
    damaged, linked = store.keep(b"right"), hashlib.sha256(b"secret").hexdigest()
    (store.directory / damaged).write_bytes(b"wrong")
    (store.directory / linked).symlink_to(secret)
    assert store.read(damaged) is None and store.read(linked) is None
    (store.directory / linked).unlink()
    (store.directory / linked).write_bytes(b"secret")  # the control
    assert store.read(linked) == b"secret"


async def test_what_no_submission_has_is_removed_once_it_is_old(tmp_path):
    """A file that was kept a moment ago may not be in the ledger yet."""
    store = submission_files(tmp_path)
    wanted, orphan, fresh = store.keep(b"a"), store.keep(b"b"), store.keep(b"c")
    for digest in (wanted, orphan):
        os.utime(store.directory / digest, (1, 1))

    async def unknown(digests):
        return set(digests) - {wanted}

    assert await store.remove_unknown(unknown) == 1
    assert store.holds(wanted) and store.holds(fresh) and not store.holds(orphan)
