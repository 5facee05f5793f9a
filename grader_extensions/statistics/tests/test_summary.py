"""`grader-cli summary` and `export` of 50 submissions that a fake graded: the figures are those by hand."""

import json
import math

import pytest

from grader.cli import extras
from grader.cli.exits import UsageError
from grader.intake import gate
from grader.model import Scope, SourceFile
from grader_extensions.statistics import export, records, summary
from grader_extensions.statistics.export import export_command
from sandbox.protocol import wire
from tests import fakes
from tests.requests import new_submission
from tests.server.keyed import keyed_server

PROBLEMS = [f"p{number}" for number in range(8)]
SPEEDUPS = (0.4, 0.7, 0.9, 1.2, 2.5)  # of the first, second, ... sample to a problem that is right
RIGHT = (0, 1, 2, 3, 4, 5, 5, 5)  # so many of five samples
BASE_ORDERS = (1.0, None, 0.7, 3.0, 0.6, 2.5, None, "fault")  # of the run to compare with: one sample to each problem
HUNG = 41  # the place of the sample that is cancelled
RUN, BASE = "run=7:a/b.c_d-e", "base"


def kernel(problem, order, tag, mode=wire.Mode.RANKED):
    """order: how many times faster than eager, None where it is wrong, or what the fake knows."""
    text = fakes.source(order if isinstance(order, str) else "wrong" if order is None else f"accept speedup: {order}")
    return new_submission(problem, [SourceFile(path="kernel.cu", content=text)], tags=[tag], mode=mode)


def samples():
    for problem, right in zip(PROBLEMS, RIGHT, strict=True):
        for number in range(5):
            yield kernel(problem, SPEEDUPS[number] if number < right else None, RUN)
    yield from (kernel("p0", order, RUN) for order in ("fault", "hang"))
    yield from (kernel(problem, order, BASE) for problem, order in zip(PROBLEMS, BASE_ORDERS, strict=True))


@pytest.fixture
async def server(serve, place):
    """The address of a server that has graded all of them."""
    for name in PROBLEMS:
        fakes.write_problem(place / "problems", name)
    async with serve(fakes.FakeGrade()) as client:
        submissions = [await client.submit(message) for message in samples()]
        assert len(submissions) == 50
        await client.cancel(submissions[HUNG].name)
        for tag in (RUN, BASE):
            async for _ in client.watch_many(tag=tag):
                pass
        yield client.address


@pytest.fixture
def figures(server, capsys):
    """Summarise, as JSON."""

    async def run(tag=RUN, **options):
        assert await summary.summary_command(tag, server=server, json=True, **options) == 0
        return json.loads(capsys.readouterr().out)

    return run


async def test_the_figures_are_those_by_hand(figures):
    data = await figures()
    (figures_of,) = data["sets"]
    assert {name: data[name] for name in ("mode", "device", "practice", "comparison")} == {
        "mode": "ranked",
        "device": "fake",
        "practice": True,
        "comparison": None,
    }
    assert figures_of["submissions"] == 42 and figures_of["graded"] == 40 and figures_of["problems"] == 8
    assert figures_of["verdicts"] == {"ACCEPTED": 25, "WRONG_ANSWER MISMATCH": 15}
    assert sum(figures_of["not_graded"].values()) == 2 and figures_of["correct_rate"] == 25 / 40
    # fast_p: of five samples to each of eight problems, those that are right and faster than p.
    assert figures_of["fast_p"] == pytest.approx({"0": 25 / 40, "0.5": 18 / 40, "0.8": 12 / 40, "1": 7 / 40, "1.5": 3 / 40, "2": 3 / 40})
    rates = {k: rate["value"] for k, rate in figures_of["pass_at_k"].items()}
    assert rates == pytest.approx({"1": 25 / 40, "2": (0 + 0.4 + 0.7 + 0.9 + 4) / 8, "4": (0 + 0.8 + 6) / 8})
    assert {rate["problems"] for rate in figures_of["pass_at_k"].values()} == {8}
    mean = (0.4 * 0.7 * 0.9 * 1.2 * 2.5**3) ** (1 / 7)
    speedup = figures_of["speedup"]
    assert speedup["value"] == pytest.approx(mean, rel=1e-3) and speedup["problems"] == 7
    assert speedup["low"] < 0.9 * mean and speedup["high"] > 1.1 * mean
    assert figures_of["accepted_without_speedup"] == 0


async def test_a_comparison_is_by_problem(figures):
    """p7 of the other run is a failure of the grader, which is no loss; p0 and p1, p6 are right in one of the two; p2 and p5 are equal."""
    data = await figures(against=BASE)
    comparison = data["comparison"]
    assert [entry["tag"] for entry in data["sets"]] == [RUN, BASE] and data["sets"][1]["pass_at_k"].keys() == {"1"}
    expected = {"problems": 7, "problems_of_one_only": 1, "wins": 3, "ties": 2, "losses": 2, "wins_by_verdict": 2, "losses_by_verdict": 1}
    assert {name: comparison[name] for name in expected} == expected
    assert comparison["sign_test_p"] == 1.0 and comparison["wilcoxon_p"] == 1.0
    assert comparison["ratio"]["value"] == pytest.approx((1 * 0.9 / 3 * 1.2 / 0.6 * 1) ** (1 / 4), rel=1e-3)
    assert comparison["ratio"]["problems"] == 4
    swapped = (await figures(BASE, against=RUN))["comparison"]
    assert (swapped["wins"], swapped["losses"]) == (2, 3)
    assert swapped["ratio"]["value"] * comparison["ratio"]["value"] == pytest.approx(1)


async def test_people_get_a_column_for_each_tag(server, capsys):
    await summary.summary_command(RUN, against=BASE, server=server)
    out = capsys.readouterr().out
    assert "practice" in out and "wins 3 (2 where only these are right)" in out and "fast_1.5" in out
    assert next(line for line in out.splitlines() if line.startswith("accepted ")).split()[1:4] == ["25", "of", "40"]


async def test_one_problem_and_zero_accepted(figures):
    """p0: all wrong. Then p1, with one right sample."""
    (none,) = (await figures(problem="p0"))["sets"]
    assert none["correct_rate"] == 0 and none["speedup"] is None and set(none["fast_p"].values()) == {0}
    assert none["pass_at_k"]["4"] == {"value": 0, "problems": 1}
    (single,) = (await figures(BASE, problem="p0"))["sets"]
    assert single["speedup"]["value"] == pytest.approx(1.0, rel=1e-3) and single["speedup"]["problems"] == 1
    assert single["speedup"]["high"] / single["speedup"]["low"] == pytest.approx(math.exp(2 * 0.01), rel=0.01)


async def test_only_failures_of_the_grader_are_no_rate(figures):
    (nothing,) = (await figures(BASE, problem="p7"))["sets"]
    assert nothing["graded"] == 0 and nothing["correct_rate"] is None and nothing["fast_p"] is None and nothing["pass_at_k"] == {}


async def test_a_baseline_that_nothing_has_gives_no_fast_p(figures):
    (unknown,) = (await figures(baseline="eagre"))["sets"]
    assert unknown["fast_p"] is None and unknown["accepted_without_speedup"] == 25 and unknown["speedup"] is None


async def test_a_tag_that_nothing_has_is_an_error(server, tmp_path):
    """Whatever is in it."""
    for tag in ("nothing", "", "\x1b[31m", "a' OR 1=1 --", "%", "x" * 5000, "\ud800", "run=7"):
        with pytest.raises(UsageError, match="tag: "):
            await summary.summary_command(tag, server=server)
        with pytest.raises(UsageError, match="tag: "):
            await export_command(tmp_path / "x", tag, server=server)
    assert list(tmp_path.iterdir()) == []
    assert records._TAG.pattern == gate._TAG.pattern


async def test_modes_devices_and_users_are_not_mixed(client, monkeypatch):
    """Each is refused with the option that names one. What failed before its device was known goes with its kind, and is not dropped."""

    def entry(number, *, device="H200", kind="cuda", mode="benchmark", user="ann", verdict="WRONG_ANSWER"):
        values = {"problem": "p", "submission": str(number), "user": user, "mode": mode, "state": "SUCCEEDED", "error": None, "reason": ""}
        return values | {"verdict": verdict, "accepted": verdict and False, "speedup": None, "device": device, "device_kind": kind}

    rows = []
    monkeypatch.setattr(summary, "row", lambda number, _: rows[number])
    monkeypatch.setattr(summary, "tagged", lambda *_, **__: _iterate(range(len(rows))))

    async def summarised(**options):
        monkeypatch.setattr(summary, "render", lambda data: summaries.append(data) or [])
        await summary.summary_command("a", server=client.address, **options)
        return summaries[-1]["sets"][0]

    summaries = []
    rows[:] = [entry(1), entry(2, device="", verdict="COMPILE_ERROR"), entry(3, device=None, kind=None, verdict=None)]
    assert (await summarised())["graded"] == 2 and summaries[-1]["device"] == "H200" and not summaries[-1]["practice"]
    rows += [entry(4, device="H100"), entry(5, device="cpu", kind="emulated"), entry(6, device="", kind="emulated")]
    with pytest.raises(UsageError, match=r"^device: .*'H200' \(1\), 'H100' \(1\), 'cpu' \(1\); name one with --device"):
        await summarised()
    with pytest.raises(UsageError, match=r"^device: "):
        await summarised(device="cuda")
    chosen = await summarised(device="H100")
    assert chosen["graded"] == 2 and chosen["verdicts"] == {"WRONG_ANSWER": 1, "COMPILE_ERROR": 1} and chosen["submissions"] == 3
    assert (await summarised(device="emulated"))["graded"] == 2 and summaries[-1]["practice"]
    assert (await summarised(device="nothing"))["graded"] == 0
    rows[:] = [entry(1), entry(2, mode="test")]
    with pytest.raises(UsageError, match=r"^mode: .*--mode"):
        await summarised()
    assert (await summarised(mode="test"))["graded"] == 1
    rows[:] = [entry(1, device="", verdict="COMPILE_ERROR"), entry(2, device="", kind="emulated", verdict="COMPILE_ERROR")]
    with pytest.raises(UsageError, match=r"^device: "):
        await summarised()
    rows[:] = [entry(1), entry(2, user="ben")]
    with pytest.raises(UsageError, match=r"^user: "):
        await summarised()


async def _iterate(values):
    for value in values:
        yield value


async def test_an_export_has_every_submission_with_sources_and_report(server, tmp_path, monkeypatch):
    """Both formats have the same rows; only the owner may read the files, and nothing is overwritten."""
    await export_command(tmp_path / "a.jsonl", RUN, server=server)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len(rows) == 42 and len({row["submission"] for row in rows}) == 42 and {row["tags"] for row in rows} == {RUN}
    assert [row["accepted"] for row in rows].count(True) == 25 and [row["accepted"] for row in rows].count(None) == 2
    assert "grade: wrong" in json.loads(rows[-1]["sources"])["kernel.cu"]
    fast = max(rows, key=lambda row: row["speedup"] or 0)
    assert fast["speedup"] == pytest.approx(2.5, rel=1e-3) and fast["speedup_low"] < 2.5 < fast["speedup_high"]
    report = json.loads(fast["report"])
    assert report["verdict"] == "VERDICT_ACCEPTED" and "secret33" not in (tmp_path / "a.jsonl").read_text()
    failed = next(row for row in rows if row["state"] == "FAILED")
    assert failed["error"] and failed["verdict"] is failed["report"] is failed["accepted"] is None
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="is there already"):
        await export_command(tmp_path / "a.jsonl", RUN, server=server)
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(export, "_GROUP_ROWS", 16)
    await export_command(tmp_path / "a.parquet", RUN, file_format="parquet", server=server)
    read = parquet.ParquetFile(tmp_path / "a.parquet")
    assert read.num_row_groups == 3 and read.read().to_pylist() == rows


async def test_an_export_without_pyarrow_says_what_to_install(server, tmp_path, monkeypatch):
    monkeypatch.setitem(extras._SIGNS, "parquet", "no_such_package")
    with pytest.raises(UsageError, match=r"pip install '\.\[parquet\]'"):
        await export_command(tmp_path / "a.parquet", RUN, file_format="parquet", server=server)
    assert list(tmp_path.iterdir()) == []


async def test_an_export_that_breaks_off_leaves_what_was_there(server, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("before")
    monkeypatch.setattr(export, "whole_row", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await export_command(tmp_path / "a", RUN, force=True, server=server)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]


async def test_a_user_has_their_own_and_an_administrator_names_one(settings, tmp_path, monkeypatch, capsys):
    """Two users have the same tag: neither's sources, nor their numbers, are in what the other gets."""
    async with keyed_server(settings) as served:
        keys = {user: await served.key(user) for user in ("ann", "ben")} | {"root": await served.key("root", Scope)}
        for user, speedup in (("ann", 1.5), ("ben", 3.0)):
            async with served.client(keys[user]) as client:
                await client.submit(kernel("sum", speedup, RUN))
                async for _ in client.watch_many(tag=RUN):
                    pass

        async def figures(key, **options):
            monkeypatch.setenv("GRADER_KEY", keys[key])
            capsys.readouterr()
            await summary.summary_command(RUN, server=served.address, json=True, **options)
            return json.loads(capsys.readouterr().out)["sets"][0]

        assert (await figures("ann"))["speedup"]["value"] == pytest.approx(1.5, rel=1e-3)
        await export_command(tmp_path / "ann", RUN, server=served.address)
        assert "speedup: 1.5" in (tmp_path / "ann").read_text() and "3.0" not in (tmp_path / "ann").read_text()
        with pytest.raises(UsageError, match="no such submission"):
            await figures("ann", user="ben")
        with pytest.raises(UsageError, match=r"^user: .*'ann' \(1\).*--user"):
            await figures("root")
        assert (await figures("root", user="ben"))["speedup"]["value"] == pytest.approx(3.0, rel=1e-3)
        await export_command(tmp_path / "all", RUN, server=served.address)
        assert len((tmp_path / "all").read_text().splitlines()) == 2
