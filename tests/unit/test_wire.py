"""The wire refuses what is no message, and gives back what it was given."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.protocol import version, wire

SANDBOX = Path(version.__file__).parents[1]
TRIAL = wire.Trial(workload_id="n64", phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.PASSED, max_absolute_error=0.5)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"Progress","stage":"verifying","workload_id":"n64","hidden_at_ns":null}',
        '{"type":"Finished","job_id":"j"}',
        '{"type":"RunEnd","cause":"killed","exit_code":null,"signal":9,"output":"","wall_ns":5}',
    ],
)
def test_a_fact_that_was_stored_before_there_were_rounds_is_still_read(line: str) -> None:
    fact = wire.decode(line.encode())
    assert wire.decode(wire.encode(fact)) == fact


def plain(message: object) -> dict[str, object]:
    return json.loads(wire.encode(message))  # type: ignore[no-any-return]


def test_what_facts_no_longer_have_is_left_out_of_stored_ones() -> None:
    """A ledger may hold it; a key that no fact ever had is refused, and so is this one where another fact has it."""
    fact = wire.Measurement(workload_id="n64", clock=wire.Clock.HOST, certified=wire.Samples(durations_ns=(1,)), bound_ns=1, floor_ns=0)
    retired = {"waited_ns": 5, "done_early": True, "batch": {"durations_ns": [5]}, "batch_size": 8}
    assert wire.decode(json.dumps({**plain(fact), **retired}).encode()) == fact
    stored = {**plain(TRIAL), "order_swap": None, "error_map": {"output": "y", "wrong_shares": "/w=="}}
    assert wire.decode(json.dumps(stored).encode()) == TRIAL
    for changed in ({**plain(fact), "surprise": 1}, {**plain(TRIAL), "done_early": True}):
        with pytest.raises(wire.WireError):
            wire.decode(json.dumps(changed).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Verdict"},
        {"type": []},
        {"outcome": "accepted"},
        {"index": "0"},
        {"index": True},
        {"surprise": 1},
        {"workload_id": None},
        {"max_absolute_error": [1]},
    ],
)
def test_a_line_with_one_wrong_value_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(json.dumps({**plain(TRIAL), **change}).encode())


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"type":"Round","index":0}'])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    """As one without a key that it has to have."""
    with pytest.raises(wire.WireError):
        wire.decode(line)


# -- the version that judge and runner have to share ---------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Another copy of the package."""
    for part in version.PARTS:
        (tmp_path / part).parent.mkdir(exist_ok=True)
        shutil.copy(SANDBOX / part, tmp_path / part)
    return tmp_path


def test_the_same_files_speak_the_same_version(copy: Path) -> None:
    assert version.version_of(copy) == version.VERSION
    command = [sys.executable, "-m", "sandbox.protocol.version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=SANDBOX.parent).stdout == version.VERSION + "\n"


@pytest.mark.parametrize("part", version.PARTS)
def test_a_change_of_any_part_is_another_version(copy: Path, part: str) -> None:
    """A message, a field of the gate or of the arena, or what the runner does first."""
    (copy / part).write_text((copy / part).read_text() + "\n")
    assert version.version_of(copy) != version.VERSION
