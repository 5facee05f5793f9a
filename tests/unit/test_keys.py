"""Keys as text and as data, and what users may be called."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from grader.model import Scope
from grader.rules import keys

NOW = datetime(2026, 5, 1, tzinfo=UTC)
READ = frozenset({Scope.READ})


def test_a_key_has_256_bits_of_chance_and_keeps_a_digest_only():
    """The stored digest says nothing of the secret, and no two keys are alike."""
    created = [keys.new("alice", READ, NOW) for _ in range(50)]
    for key, text in created:
        prefix, key_id, secret = text.split("_")
        assert (prefix, key_id, len(bytes.fromhex(secret))) == ("grader", key.key_id, 32)
        assert key.secret_digest == hashlib.sha256(secret.encode()).hexdigest() and secret not in repr(key)
    assert len({text.split("_")[2] for _, text in created}) == len({key.key_id for key, _ in created}) == 50


def test_a_secret_opens_its_own_key_and_no_other():
    (key, text), (second_key, _) = keys.new("alice", READ, NOW), keys.new("alice", READ, NOW)
    secret = keys.split(text)[1]
    assert keys.opens(secret, key)
    for wrong, of in ((secret, second_key), (key.secret_digest, key), ("", key), (secret, None), (secret.upper(), key)):
        assert not keys.opens(wrong, of)


@pytest.mark.parametrize(
    "text", ["", "grader", "grader_x_y", "grader_{0}_{1}0", "xgrader_{0}_{1}", "grader_{0}_{1}\n", "grader_{0}_", "{1}"]
)
def test_what_is_no_key_is_not_taken_apart(text):
    assert keys.split(text.format("ab" * 6, "cd" * 32)) is None
    assert keys.split(f"grader_{'ab' * 6}_{'cd' * 32}") == ("ab" * 6, "cd" * 32)


def test_a_key_ends_at_its_end_and_when_it_is_revoked():
    key, _ = keys.new("alice", READ, NOW, expire_time=NOW + timedelta(seconds=1))
    assert key.valid(NOW) and not key.valid(NOW + timedelta(seconds=1))
    assert keys.new("alice", READ, NOW)[0].valid(NOW + timedelta(days=36_500))


@pytest.mark.parametrize("user", ["", "A", "a b", "a/b", "x" * 65, "a\n", "é", "a\0", "a:b", "٣"])
def test_what_nobody_is_called(user):
    with pytest.raises(ValueError, match="letters a-z, digits"):
        keys.new(user, READ, NOW)


@pytest.mark.parametrize("changes", [{"scopes": frozenset()}, {"note": "x" * 201}, {"note": "a\nb"}])
def test_a_key_without_a_scope_or_with_a_note_of_more_than_a_line_is_not_made(changes):
    with pytest.raises(ValueError, match=r"scope|note"):
        keys.new("alice", changes.get("scopes", READ), NOW, note=changes.get("note", ""))
