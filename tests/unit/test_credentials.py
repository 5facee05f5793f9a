"""Where a user's keys are stored."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader.api import credentials
from grader.api.credentials import Credential, CredentialStore
from grader.errors import SettingsInvalid

KEY = "grader_planted_secret"


@pytest.fixture
def store(tmp_path):
    return CredentialStore(tmp_path / "conf" / "grader")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_user_can_read_what_is_stored(store, umask):
    """Whatever the umask, and whoever made the directory before."""
    store.path.parent.mkdir(parents=True, mode=0o755)
    before = os.umask(umask)
    try:
        store.put("a:1", Credential(key=KEY))
    finally:
        os.umask(before)
    assert (mode(store.path), mode(store.path.parent)) == (0o600, 0o700)
    assert [path.name for path in store.path.parent.iterdir()] == [credentials.FILE_NAME]


def test_it_comes_back_as_it_was_stored(store):
    """By server, however its address is written."""
    store.put("https://Grader.Example:443/", Credential(key=KEY, tls=True, ca="PEM"))
    store.put("unix:/tmp/S", Credential(key="other"))
    assert store.all() == {"grader.example:443": Credential(key=KEY, tls=True, ca="PEM"), "unix:/tmp/S": Credential(key="other")}
    assert store.remove("grader.example:443") and not store.remove("grader.example:443")
    assert list(store.all()) == ["unix:/tmp/S"]


@pytest.mark.parametrize("open_to", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_open_is_not_used(store, open_to):
    """Nor written over: it is said, with the remedy; the control is the same file with its right mode."""
    store.put("a:1", Credential(key=KEY))
    store.path.chmod(open_to)
    for use in (store.all, lambda: store.put("b:1", Credential(key="other")), lambda: store.remove("a:1")):
        with pytest.raises(SettingsInvalid, match="chmod 600") as refused:
            use()
        assert KEY not in str(refused.value)
    store.path.chmod(0o600)
    assert list(store.all()) == ["a:1"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"servers": {"a:1": {"key": ["%s"]}}}', '{"servers": {"a:1": "%s"}}', '{"x": "%s"}', "\x00\xff"),
        '{"servers": {}, "default": ["%s"]}',
    ],
)
def test_a_damaged_file_is_said_and_kept(store, text):
    """Nothing of it is quoted, and nothing is lost."""
    store.put("a:1", Credential())
    written = text.replace("%s", KEY)
    store.path.write_bytes(written.encode("latin-1"))
    for use in (store.all, lambda: store.put("b:1", Credential())):
        with pytest.raises(SettingsInvalid, match="damaged") as refused:
            use()
        assert KEY not in str(refused.value)
    assert store.path.read_bytes() == written.encode("latin-1")


def test_a_link_is_not_followed(store, tmp_path):
    """Whoever can make one there would choose the file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps({"servers": {}}))
    elsewhere.chmod(0o600)
    store.path.parent.mkdir(parents=True)
    store.path.symlink_to(elsewhere)
    with pytest.raises(SettingsInvalid, match="can't be read"):
        store.all()


def test_logins_at_once_are_all_kept(store):
    """None is lost to another that read before it wrote."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.put(f"host:{number}", Credential(key=str(number))), range(40)))
    assert {name: credential.key for name, credential in store.all().items()} == {f"host:{number}": str(number) for number in range(40)}


def test_the_environment_goes_before_what_is_stored(tmp_path):
    """Its key takes the stored server's authority with it; an empty one is none."""
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert credentials.find("a:1", environment) == Credential()
    CredentialStore(tmp_path / "grader").put("a:1", Credential(key=KEY, ca="PEM", tls=True))
    assert credentials.find("https://a:1", environment) == Credential(key=KEY, ca="PEM", tls=True)
    assert credentials.find("a:1", {**environment, "GRADER_KEY": " own\n"}) == Credential(key="own", ca="PEM", tls=True)
    assert credentials.find("a:1", {**environment, "GRADER_KEY": ""}).key == KEY
    assert credentials.find("a:1", {"HOME": str(tmp_path)}) == Credential()


def test_a_key_is_not_in_the_repr():
    """A traceback with it would be a key in a log."""
    assert KEY not in repr(Credential(key=KEY)) and KEY not in f"{CredentialStore!r} {[Credential(key=KEY)]}"
