"""`python -m tools.attack --gpu`: how reports of the GPU tests get into a document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import attack, gpu_attacks


def row(name: str, gained: str = "none", wrong: str = "") -> dict[str, str]:
    return {
        "id": "A1",
        "severity": "high",
        "attack": name,
        "verdict": "WRONG_ANSWER",
        "reason": "MISMATCH",
        "gained": gained,
        "seconds": "2.5",
        "wrong": wrong,
    }


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a gpu.json as tests/gpu/report.py does, with these rows."""

    def write(name: str, rows: list[dict[str, str]], section: str = "exploits", part: str = "1/1", holds: bool | None = True) -> Path:
        facts = {"date": "2030-01-01", "device": "0: a GPU", "commit": name, "slice": part}
        claim = {"text": "an attack is not accepted", "holds": holds, "detail": "1 of 2"}
        one = {"name": section, "raw": {"rows": rows}, "claims": [claim]}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"facts": facts, "sections": [one]}), "utf-8")
        return path

    return write


def test_two_slices_are_one_table(written: Callable[..., Path]) -> None:
    """In the order of the names, with what differs between the runs beside each other."""
    found = gpu_attacks.read([written("first", [row("b")], part="1/2"), written("second", [row("a")], part="2/2")])
    text = "\n".join(gpu_attacks.lines(found))
    assert found.held
    assert found.facts["commit"] == "first; second"
    assert found.facts["device"] == "0: a GPU"
    assert text.index("| a |") < text.index("| b |")
    assert "2 gradings of attacks gain nothing | holds | 2 WRONG_ANSWER" in text


def test_a_gain_in_one_slice_is_seen(written: Callable[..., Path]) -> None:
    """In the claim and in the row."""
    found = gpu_attacks.read([written("first", [row("b", gained="20.0 us")])])
    assert "| 1 gradings of attacks gain nothing | **FAILS** | b: 20.0 us |" in "\n".join(gpu_attacks.lines(found))
    assert not found.held


def test_what_is_not_all_of_a_run_does_not_hold(written: Callable[..., Path]) -> None:
    """One slice of two, and a run that was interrupted."""
    half = gpu_attacks.read([written("half", [row("b")], part="1/2")])
    assert (half.held, half.failed) == (False, ["exploits: there are only the slices 1/2"])
    cut = gpu_attacks.read([written("cut", [row("b")], holds=None)])
    assert (cut.held, cut.failed) == (False, ["exploits: an attack is not accepted: 1 of 2"])


def test_the_gpus_table_is_put_between_its_own_marks(
    written: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing else of the document changes."""
    document = tmp_path / "security.md"
    document.write_text("before\n<!-- attacks: gpu -->\nof last year\n<!-- attacks: gpu -->\nafter\n", "utf-8")
    assert attack.main(["--gpu", str(written("one", [row("a")])), "--into", str(document)]) == 0
    text = document.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "of last year" not in text
    assert "| A1 | high | a | WRONG_ANSWER MISMATCH | none | 2.5 |" in text
    assert "| a |" in capsys.readouterr().out


def test_a_file_without_the_sections_is_named(written: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So is one that is not there; the exit code is misuse's."""
    assert attack.main(["--gpu", str(written("other", [], section="six"))]) == 2
    assert "has no section" in capsys.readouterr().err
    assert attack.main(["--gpu", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
