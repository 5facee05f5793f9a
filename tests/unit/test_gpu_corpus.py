"""What `tools.gpu --only exploits,honest_set` makes of gradings, and how its rows get into a document: without grading anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from grader.errors import SandboxBroken
from grader.model import Report, Verdict
from sandbox.protocol import wire
from tests.exploits import attack_files
from tests.gpu.gains import gain_of
from tests.harness.grading import Graded, Grading
from tests.harness.messages import SECRET
from tests.honest import kernel_files
from tools import attack
from tools.gpu import __main__ as program
from tools.gpu import corpus
from tools.gpu.page import Section
from tools.gpu.run import Choices, Run
from tools.gpu.sections import exploits, honest_set
from tools.gpu.stream import Came, Lane, chosen

KERNEL = attack_files.attack("memory_bomb")
LANE_S = 0.2
SLOW_ATTACK = attack_files.attack("slows_baseline")


def made_run(tmp_path: Path, share: tuple[int, int] = (1, 1), repeats: int = 1) -> Run:
    choices = Choices(
        device="cuda",
        isolation="auto",
        measure_s=1.0,
        repetitions=1,
        aa_count=1,
        lane_jobs=1,
        soak_count=1,
        naive_load=False,
        seed=1,
        share=share,
        repeats=repeats,
    )
    return Run(choices=choices, section=Section(name="exploits", title="", budget_s=60.0), place=tmp_path)


def came(verdict: Verdict, reason: str = "", output: str = "", certified_ns: int | None = None, workload: str = "n1537") -> Came:
    measured = []
    if certified_ns is not None:
        samples = wire.Samples(durations_ns=(certified_ns,) * 3)
        measured = [
            wire.Measurement(workload_id=workload, clock=wire.Clock.HOST, certified=samples, reported=samples, bound_ns=0, floor_ns=0)
        ]
    report = Report(verdict=verdict, reason=reason, summary="", measurements=tuple(measured))
    facts = (wire.RunEnd(cause="exited", output=output),)  # a report of ranked mode shows none of it
    return Came(graded=Graded(report=report, facts=facts, seconds=1.0), seconds=1.0)


def outcomes(section: Section) -> dict[str, bool | None]:
    return {claim.text: claim.holds for claim in section.claims}


def test_an_attack_that_is_accepted_has_gained_and_fails_the_section(tmp_path: Path) -> None:
    """Where its file does not allow it; the same row with another verdict holds, which is the control."""
    for verdict, holds in ((Verdict.ACCEPTED, False), (Verdict.MEMORY_LIMIT_EXCEEDED, True)):
        run = made_run(tmp_path)
        found = exploits.Found(run, [KERNEL])
        one = came(verdict, "" if verdict is Verdict.ACCEPTED else "HOST_MEMORY")
        found._add(KERNEL, one, "accepted" if exploits._accepted(one) else None)
        found.conclude(0)
        assert run.section.claims[0].holds is holds
        assert run.section.succeeded is holds
        assert run.section.raw["rows"][0]["verdict"] == verdict.value


def test_a_faster_time_than_the_honest_twins_is_a_gain(tmp_path: Path) -> None:
    """By more than 10 us, and 1 % of a long kernel; less is the clock's own."""
    problem = exploits.submitted(SLOW_ATTACK).problem
    honest = came(Verdict.ACCEPTED, certified_ns=500_000).graded
    assert honest is not None
    gains = {
        ns: gain_of(graded, honest, problem)
        for ns in (480_000, 491_000, 600_000)
        if (graded := came(Verdict.ACCEPTED, certified_ns=ns).graded)
    }
    assert gains == {480_000: "20.0 us", 491_000: None, 600_000: None}


def test_an_accepted_attack_without_an_honest_time_is_not_called_harmless(tmp_path: Path) -> None:
    """Where the honest twin was refused, nobody knows what was gained."""
    run = made_run(tmp_path)
    found = exploits.Found(run, [SLOW_ATTACK])
    problem = exploits.submitted(SLOW_ATTACK).problem
    found._add_timed(SLOW_ATTACK, problem, came(Verdict.ACCEPTED, output="burning", certified_ns=9), came(Verdict.WRONG_ANSWER))
    assert found.rows[0].gained == "not known: its honest twin failed"


@pytest.mark.parametrize(
    ("name", "one", "complaint"),
    [
        ("memory_bomb", came(Verdict.WRONG_ANSWER), "expected MEMORY_LIMIT_EXCEEDED HOST_MEMORY"),
        ("memory_bomb", Came(graded=None, seconds=1.0, failure="SandboxBroken: no engine"), "no verdict"),
        ("stale_graph", came(Verdict.WRONG_ANSWER, "MISMATCH"), "no attack took place"),
        ("reads_reference", came(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", "FOUND /x"), "found 'FOUND'"),
        ("computes_nothing", came(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", SECRET), f"found '{SECRET}'"),
    ],
)
def test_what_is_not_as_the_file_says_is_named(name: str, one: Came, complaint: str) -> None:
    """Another verdict, none, an attack that did not take place, something found that is not the kernel's."""
    assert list(exploits.complaints(attack_files.attack(name), one)) == [complaint]


def test_what_is_as_the_file_says_is_no_complaint() -> None:
    """The control."""
    assert list(exploits.complaints(attack_files.attack("stale_graph"), came(Verdict.WRONG_ANSWER, "MISMATCH", "captured"))) == []


def test_the_section_looks_for_the_secret_that_the_attacks_look_for() -> None:
    """Its name stands in attacks, in the tests and in the section."""
    assert exploits.SECRET == SECRET


def test_slices_are_a_partition(tmp_path: Path) -> None:
    """Two halves on two GPUs grade everything once."""
    everything = attack_files.attacks_on_a_gpu()
    halves = [chosen(everything, made_run(tmp_path, (part, 2))) for part in (1, 2)]
    assert sorted(one.name for half in halves for one in half) == sorted(one.name for one in everything)
    assert abs(len(halves[0]) - len(halves[1])) <= 1


def test_every_attack_is_for_a_gpu_or_says_why_not() -> None:
    """Nothing is left out in silence, and what is accepted at most gains nothing."""
    on_a_gpu = attack_files.attacks_on_a_gpu()
    left_out = [one for one in attack_files.all_in("attacks") if one.name not in {kernel.name for kernel in on_a_gpu}]
    assert all(one.emulated_only.startswith("emulated; ") for one in left_out)
    assert len(on_a_gpu) >= 120
    assert all("ACCEPTED" not in one.expect or one.no_gain for one in on_a_gpu)
    assert {expected.split()[0] for one in on_a_gpu for expected in one.expect} <= {one.value for one in Verdict}


def test_an_honest_kernel_that_is_refused_once_fails_the_section(tmp_path: Path) -> None:
    """Two rounds of three were right; that is a flake, which is a false reject."""
    kernel = kernel_files.all_in("kernels")[0]
    for verdicts, holds in (((Verdict.ACCEPTED,) * 3, True), ((Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.ACCEPTED), False)):
        graded = honest_set.Graded(kernel=kernel, wanted="ACCEPTED", came=[came(one) for one in verdicts])
        assert graded.right is holds
    assert "2 ACCEPTED, 1 WRONG_ANSWER" in graded.row


def test_a_kernel_that_was_never_graded_is_not_right() -> None:
    """As when the time was up."""
    assert not honest_set.Graded(kernel=kernel_files.all_in("kernels")[0], wanted="ACCEPTED").right


class SlowLane:
    """Grades one at a time, each in LANE_S; what does not compile is not on the lane."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def grade(self, problem: object, sources: object, **_: object) -> Graded:
        if sources == "broken":
            raise SandboxBroken("no engine")
        if sources != "no kernel":
            async with self._free:
                await asyncio.sleep(LANE_S)
        found = came(Verdict.COMPILE_ERROR if sources == "no kernel" else Verdict.ACCEPTED).graded
        assert found is not None
        return found


async def test_what_several_took_adds_up_to_the_lanes_time(tmp_path: Path) -> None:
    """Waiting for others is nobody's time, a failure of ours is told, and what was begun after the time was up is not graded."""
    run, found = made_run(tmp_path), {}

    async def take(number: int, one: Came) -> None:
        found[number] = one

    some = exploits.submitted(KERNEL)
    texts = ("kernel", "no kernel", "kernel", "broken", "kernel")
    lane = Lane(run, cast("Grading", SlowLane()))
    await lane.grade_all([replace(some, sources=text) for text in texts], take, at_a_time=5)
    assert [found[number].verdict for number in range(5)] == ["ACCEPTED", "COMPILE_ERROR", "ACCEPTED", "no verdict", "ACCEPTED"]
    assert "no engine" in found[3].reason
    assert sum(found[number].seconds for number in (0, 2, 4)) < 3.9 * LANE_S  # not 1 + 2 + 3 of them
    run.section.budget_s = 0.0
    found.clear()
    await lane.grade_all([some], take)
    assert found == {}


@pytest.mark.parametrize("words", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "1/0", ""])
def test_a_slice_that_is_none_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By what would be right."""
    with pytest.raises(SystemExit):
        program.main([f"--slice={words}"])
    assert "write 1/2" in capsys.readouterr().err


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
    """A gpu.json as a run writes it, with these rows."""

    def write(name: str, rows: list[dict[str, str]], section: str = "exploits", share: str = "1/1", claims: int = 1) -> Path:
        facts = {"date": "2030-01-01", "device": "0: a GPU", "commit": name}
        claim = {"text": "all were graded", "holds": True, "detail": ""}
        one: dict[str, Any] = {"name": section, "raw": {"rows": rows, "share": share}, "claims": [claim] * claims, "failure": ""}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"facts": facts, "sections": [one]}), "utf-8")
        return path

    return write


def test_two_slices_are_one_table(written: Callable[..., Path]) -> None:
    """In the order of the names, with what differs between the runs beside each other."""
    found = corpus.read([written("first", [row("b")], share="1/2"), written("second", [row("a")], share="2/2")])
    text = "\n".join(corpus.lines(found))
    assert found.held
    assert found.facts["commit"] == "first; second"
    assert found.facts["device"] == "0: a GPU"
    assert text.index("| a |") < text.index("| b |")
    assert "2 gradings of attacks gain nothing | holds | 2 WRONG_ANSWER" in text


def test_a_gain_in_one_slice_is_seen(written: Callable[..., Path]) -> None:
    """In the claim and in the row."""
    found = corpus.read([written("first", [row("b", gained="20.0 us")])])
    assert "| 1 gradings of attacks gain nothing | **FAILS** | b: 20.0 us |" in "\n".join(corpus.lines(found))
    assert not found.held


def test_what_is_not_all_of_a_run_does_not_hold(written: Callable[..., Path]) -> None:
    """One slice of two, and a run that was killed before it came to its end."""
    half = corpus.read([written("half", [row("b")], share="1/2")])
    assert (half.held, half.failed) == (False, ["exploits: there are only the slices 1/2"])
    killed = corpus.read([written("killed", [row("b")], claims=0)])
    assert (killed.held, killed.failed) == (False, ["exploits was not finished"])


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
