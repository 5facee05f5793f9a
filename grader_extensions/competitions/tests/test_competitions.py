"""A competition's file: what it may have, which mistakes are named, what it makes, and the command that checks one."""

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer.testing

from grader.cli.commands import app
from grader.config import Settings
from grader.errors import CompetitionNotFound, ProblemInvalid
from grader.model import ScoreKind
from grader.problems.store import Problems, keep
from grader.server.wiring import box_settings
from grader_extensions.competitions import competition_file
from grader_extensions.competitions.competition_file import LOGO_LIMIT_BYTES, problem_for, read_logo
from grader_extensions.competitions.model import TieRule, Visibility
from grader_extensions.competitions.store import Competitions, read_competition
from grader_extensions.operation.server_doctor import CheckupStatus
from grader_extensions.operation.tests.test_checkup import check_of as finding
from sandbox.protocol import wire
from tests import fakes
from tests.server import competition_files
from tests.unit import test_docs_fields as pages
from tests.unit.test_kept_problems import problem as kept_problem

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "competitions"
TEXT = (FIXTURES / "spring" / "competition.toml").read_text()
SIZE = 70368
SECRET_WORDS = (str(SIZE), "0011")


@pytest.fixture(scope="module")
def problems():
    return Problems.load([ROOT / "kernels_examples"])


@pytest.fixture
def load(tmp_path, problems):

    def loaded(text):
        (tmp_path / "competition.toml").write_text(text)
        return Competitions.load([tmp_path], problems)

    return loaded


def test_a_competition_is_read_whole(problems):
    """Every key arrives, times in UTC, from a directory of directories."""
    (spring,) = Competitions.load([FIXTURES], problems).all()
    assert (spring.competition_id, spring.title, spring.problem_ids) == ("spring", "Spring sprint", ("vector_add", "row_softmax"))
    assert (spring.start_time, spring.end_time) == (datetime(2026, 5, 1, 16, tzinfo=UTC), datetime(2026, 5, 3, 16, tzinfo=UTC))
    assert (spring.freeze_time, spring.device_kinds, spring.mode) == (datetime(2026, 5, 3, 15, tzinfo=UTC), ("emulated",), wire.Mode.RANKED)
    assert (spring.hourly_limit, spring.daily_limit, spring.ranking.process_count) == (10, 40, 2)
    assert (spring.ranking.score_kind, spring.ranking.baseline) == (ScoreKind.SPEEDUP, "eager")
    assert (spring.tie_rule, spring.visibility) == (TieRule.SHARE, Visibility.AFTER_END)
    assert len(spring.secret_workloads["vector_add"]) == 3


@pytest.mark.parametrize("path", ["spring/competition.toml", "spring", "."])
def test_a_path_is_a_file_its_directory_or_the_one_above(problems, path):
    assert Competitions.load([FIXTURES / path], problems).get("spring").title == "Spring sprint"


PNG, WEBP = b"\x89PNG\r\n\x1a\n", b"RIFF\x00\x00\x00\x00WEBP"


@pytest.mark.parametrize(("content", "media_type"), [
    (PNG, "image/png"), (WEBP, "image/webp"), (PNG.ljust(LOGO_LIMIT_BYTES, b"x"), "image/png"),
    (PNG.ljust(LOGO_LIMIT_BYTES + 1, b"x"), ""), (b"<svg onload='x()'/>", ""), (b"", ""), (b"RIFFxxxxWAVE", ""), (b"GIF89a", ""),
])  # fmt: skip
def test_a_logo_is_a_small_picture_without_scripts(tmp_path, content, media_type):
    """By its first bytes, whatever its name is; "" here: refused."""
    (tmp_path / "logo.png").write_bytes(content)
    if media_type:
        assert read_logo(tmp_path / "logo.png") == (content, media_type)
    else:
        with pytest.raises(ValueError, match="is not a PNG or WebP file of at most 256 KiB; convert it"):
            read_logo(tmp_path / "logo.png")


def test_the_same_file_twice_is_one_competition(problems):
    """A name that is not there is answered with those that are."""
    loaded = Competitions.load([FIXTURES, FIXTURES / "spring"], problems)
    with pytest.raises(CompetitionNotFound, match="take one of: spring"):
        loaded.get("autumn")


MISTAKES = [
    ("start = 2026-05-01T18:00:00+02:00", "start = 2026-05-01T18:00:00", ":8: start: 2026-05-01T18:00:00 has no offset from UTC"),
    ("end = 2026-05-03T18:00:00+02:00", "end = 2026-05-03", ":9: end: is not a time; write a date, a time and an offset"),
    ("end = 2026-05-03T18:00:00+02:00", 'end = "2026-05-03T18:00:00+02:00"', ":9: end: is not a time"),
    ("end = 2026-05-03T18:00:00+02:00", "end = 2026-05-01T16:00:00Z", "'end' is not after 'start'"),
    ("freeze = 2026-05-03T17:00:00+02:00", "freeze = 2026-05-03T18:00:00+02:00", "'freeze' is not between 'start' and 'end'"),
    ('"row_softmax"]', '"row_softmacks"]', ":6: problems.1: there is no problem 'row_softmacks'"),
    ("hourly_limit = 10", "hourly_limit = -1", ":12: hourly_limit: Input should be greater than or equal to 0"),
    ("hourly_limit = 10", 'hourly_limit = "10"', ":12: hourly_limit: Input should be a valid integer"),
    ("hourly_limit = 10", "hourly_limits = 10", ":12: hourly_limits: is not a key here; did you mean"),
    ('mode = "ranked"', 'mode = "benchmark"', ":11: mode: Input should be 'ranked'"),
    ('devices = ["emulated"]', 'devices = ["gpu"]', "'devices' has 'gpu', which is not a device"),
    ('mode = "ranked"', 'color = "red"', ":11: color: String should match pattern"),
    ('mode = "ranked"', 'color = "#FFFFFF;} *{"', ":11: color: String should match pattern"),
    ('mode = "ranked"', 'logo = "../logo.png"', ":11: logo: String should match pattern"),
    ('mode = "ranked"', 'logo = "logo.png"', ":11: logo: 'logo.png' can't be read"),
    ('mode = "ranked"', 'logo = "competition.toml"', ":11: logo: 'competition.toml' is not a PNG or WebP file"),
    ('baseline = "eager"', 'baseline = "compile"', "which the emulated device does not have"),
    ('secret_seed = "00112233445566778899aabbccddeeff"', "", "'secret_seed' is missing"),
    ("axes = { n = 70368 }", "axes = { m = 70368 }", ":23: secret.0.axes: must give exactly the axes ['n']"),
    ("axes = { n = 70368 }", "axes = { n = -70368 }", ":23: secret.0.axes.n: Input should be greater"),
    ("low = 1000, high = 90000", "low = 90000, high = 1000", ":27: secret.1.axes.n: 'high' is below 'low'"),
    ("low = 1000, high = 90000", "lo = 1000, high = 90000", ":27: secret.1.axes.n.low: is missing; write a whole number"),
    ("count = 2", "count = 2\nmoved_bytes = '4 * m'", ":29: secret.1.moved_bytes: has no value at these axes"),
    ("axes = { n = 70368 }", "axes = { n = 70368 }\ncount = 2", "'count' is for axes that are drawn"),
    ('problem = "vector_add"\naxes = { n = 70368 }', 'problem = "row_softmax"\naxes = { n = 70368 }', "must give exactly the axes"),
    (
        'problem = "vector_add"\naxes = { n = 70368 }',
        'problem = "other"\naxes = { n = 70368 }',
        "is of 'other', which is not in 'problems'",
    ),
    ("axes = { n = 70368 }", "axes = { n = 70368 }\ndevice = 'cuda'", "'secret' is run on cuda only, and 'devices' has none"),
]


@pytest.mark.parametrize(("old", "replacement", "message"), MISTAKES)
def test_a_mistake_is_named_with_file_line_and_key(load, tmp_path, problems, old, replacement, message):
    """A server and `competitions check` use the same words, which quote no secret size and no seed. The check adds a remedy."""
    assert old in TEXT
    with pytest.raises(ProblemInvalid) as caught:
        load(TEXT.replace(old, replacement, 1))
    mistakes = [str(mistake) for mistake in read_competition(tmp_path / "competition.toml", problems)[1]]
    assert message in str(caught.value) and any(message in mistake for mistake in mistakes), mistakes
    assert all(";" in mistake or "did you mean" in mistake or "must give exactly" in mistake for mistake in mistakes)
    assert not [word for word in SECRET_WORDS for mistake in (str(caught.value), *mistakes) if word in mistake]


SMALL, LARGE = 'id = "small", axes = { n = 64 }', 'id = "large", axes = { n = 99 }, device = "cuda"'
OWN_TOLERANCE, OWN_INPUTS = "tolerance = { atol = 0.5 }", "distributions = { a = { scale = 9.0 } }"


@pytest.fixture
def secret_of(tmp_path):
    """Load a competition with a secret of a problem with these public workloads."""

    def loaded(small, large, device=""):
        text = fakes.PROBLEM_TOML.format(name="sum")
        text = f"{text[: text.index('workloads')]}workloads = [{{ {small} }}, {{ {large} }}]\n"
        fakes.write_problem(tmp_path / "problems", text=text)
        head = (
            TEXT[: TEXT.index("[[secret]]")]
            .replace('"vector_add", "row_softmax"', '"sum"')
            .replace('["emulated"]', '["emulated", "cuda:H200"]')
        )
        (tmp_path / "competition.toml").write_text(f"{head}[[secret]]\nproblem = 'sum'\naxes = {{ n = {SIZE} }}\n{device}")
        competition = Competitions.load([tmp_path / "competition.toml"], Problems.load([tmp_path / "problems"])).get("spring")
        return competition.secret_workloads["sum"][0]

    return loaded


@pytest.mark.parametrize(
    ("small", "large", "differs"),
    [
        (f'{SMALL}, device = "emulated"', f"{LARGE}, {OWN_TOLERANCE}", "tolerance"),
        (f'{SMALL}, device = "emulated", {OWN_INPUTS}', LARGE, "distribution of inputs"),
    ],
)
def test_a_secret_names_its_device_where_the_devices_differ(secret_of, small, large, differs):
    """By the tolerance of the wrong one a right kernel would be refused."""
    with pytest.raises(ProblemInvalid, match=f":21: secret.0.device: is left out, and the {differs} of 'sum'") as caught:
        secret_of(small, large)
    assert "write device" in str(caught.value) and str(SIZE) not in str(caught.value)
    cuda, emulated = (secret_of(small, large, f"device = '{kind}'") for kind in ("cuda", "emulated"))
    assert (cuda.tolerance, cuda.distributions) != (emulated.tolerance, emulated.distributions)


@pytest.mark.parametrize("small", [SMALL, f'{SMALL}, device = "emulated"'])
def test_a_secret_names_no_device_where_that_decides_nothing(secret_of, small):
    """The control: the devices' first workloads are one and the same, or agree."""
    assert secret_of(small, LARGE).device_kind == ""
    assert secret_of(SMALL, f"{LARGE}, {OWN_TOLERANCE}").tolerance is None


def test_two_files_with_one_name_are_refused(tmp_path, problems):
    """Or else the second would silently be the one that counts."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "competition.toml").write_text(TEXT)
    with pytest.raises(ProblemInvalid, match=r"is the name of .*one/competition\.toml too"):
        Competitions.load([tmp_path], problems)


def test_offsets_are_times_and_not_clocks(load):
    """Over a change to summer time, 02:30+01:00 and 03:30+02:00 of that night are one moment: no clock is asked."""
    night = TEXT.replace("start = 2026-05-01T18:00:00+02:00", "start = 2026-03-29T02:30:00+01:00")
    same = TEXT.replace("start = 2026-05-01T18:00:00+02:00", "start = 2026-03-29T03:30:00+02:00")
    begins = load(night).get("spring").start_time
    assert begins == load(same).get("spring").start_time == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def test_secret_workloads_are_appended_hidden(problems):
    """With the problem's own expressions for what has to be moved and computed, and with the competition's ranking."""
    spring, plain = Competitions.load([FIXTURES], problems).get("spring"), problems.get("vector_add")
    graded = problem_for(spring, plain)
    assert graded.spec.workloads[: len(plain.spec.workloads)] == plain.spec.workloads
    added = graded.spec.workloads[len(plain.spec.workloads) :]
    assert [workload.hidden for workload in added] == [True] * 3 and added[0].axes == {"n": SIZE}
    assert (added[0].moved_bytes, added[0].flops, added[0].device_kind) == (12 * SIZE, SIZE, "")
    assert graded.ranking == spring.ranking and graded.competition_id == "spring"


def test_sizes_are_drawn_by_the_seed(problems):
    """Of the range, the same every time, others with another seed; and who is told the seed afterwards finds the same."""
    loaded = Competitions.load([FIXTURES], problems)
    sizes = [workload.axes["n"] for workload in loaded.get("spring").secret_workloads["vector_add"]]
    assert sizes == [SIZE, 75585, 35293] and all((size - 1000) % 7 == 0 for size in sizes[1:])


def test_a_final_draws_sizes_of_its_own(problems, load):
    """Others than the file's and than another final's, the same for the same one; sizes that are no range stay."""
    loaded = Competitions.load([FIXTURES], problems)
    drawn = [loaded.get("spring"), *(loaded.redrawn("spring", name) for name in ("one", "two", "one"))]
    sizes = [[workload.axes["n"] for workload in competition.secret_workloads["vector_add"]] for competition in drawn]
    assert {draw[0] for draw in sizes} == {SIZE} and len({size for draw in sizes for size in draw[1:]}) == 6
    digests = [problem_for(competition, problems.get("vector_add")).digest for competition in drawn]
    assert sizes[1] == sizes[3] and digests[1] == digests[3] and len(set(digests)) == 3
    other_seed = load(TEXT.replace("0011", "1100")).redrawn("spring", "one").secret_workloads["vector_add"]
    assert [workload.axes["n"] for workload in other_seed] != sizes[1]
    assert "secret" not in repr(drawn[1]) and loaded.get("spring") == drawn[0]


def test_a_digest_can_not_be_tried(problems):
    """Digests are shown: with the sizes, but without the seed, nobody can tell whether they are right. The control: with it anybody can."""
    spring, plain = Competitions.load([FIXTURES], problems).get("spring"), problems.get("vector_add")
    guess = replace(spring, secret_seed="")
    assert problem_for(guess, plain).digest != problem_for(spring, plain).digest
    assert problem_for(replace(spring), plain).digest == problem_for(spring, plain).digest


def test_neither_seed_nor_sizes_are_in_a_repr(problems):
    """A repr gets into logs and tracebacks."""
    shown = repr(Competitions.load([FIXTURES], problems).get("spring"))
    assert str(SIZE) not in shown and "0011" not in shown and "secret" not in shown


def test_a_box_never_sees_a_competition(tmp_path):
    """Where it lies below what boxes are shown of the host, its directory is covered, as the problems' are."""
    (tmp_path / "spring").mkdir()
    (tmp_path / "spring" / "competition.toml").write_text(TEXT)
    for path in (tmp_path / "spring", tmp_path / "spring" / "competition.toml"):
        settings = Settings(state_dir=tmp_path / "state", competitions=(path,))
        assert tmp_path / "spring" in box_settings(settings).hidden_paths


# -- `competitions check` -------------------------------------------------------------------------------

WRONG = """\
nam = "x"
title = ""
problems = ["vector_ad", "row_softmax"]
start = 2026-05-01T18:00:00
end = "soon"
visiblity = "after_end"
hourly_limit = "10"
processes = 99
baseline = "max-autotune"

[[secret]]
problem = "row_softmax"
axes = { rows = 3 }

[[secret]]
problem = "row_softmax"
axes = { rows = { lo = 3, high = 9 }, cols = -4 }
"""
EXPECTED_MISTAKES = [
    "name: is missing; write lower case letters",
    "1: nam: is not a key here; did you mean 'name'?",
    "2: title: String should have at least 1 character; write one line",
    "3: problems.0: there is no problem 'vector_ad'; take one of: vector_add",
    "3: problems.1: 'row_softmax' is not timed against 'max-autotune'; add it",
    "4: start: 2026-05-01T18:00:00 has no offset from UTC; write",
    "5: end: is not a time; write",
    "6: visiblity: is not a key here; did you mean 'visibility'?",
    "7: hourly_limit: Input should be a valid integer; write it without quotes",
    "8: processes: Input should be less than or equal to 10; write a whole number from 1 to 10",
    "13: secret.0.axes: must give exactly the axes ['cols', 'rows']",
    "17: secret.1.axes.rows.low: is missing; write a whole number",
    "17: secret.1.axes.rows.lo: is not a key here; did you mean 'low'?",
    "17: secret.1.axes.cols: Input should be greater than or equal to 0; write a size, or a range",
    "secret_seed: 'secret_seed' is missing",
]


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Run a command of `grader-cli competitions` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    state = ("--state-dir", str(tmp_path / "state"), "--problems", str(ROOT / "kernels_examples"))
    return lambda *words: typer.testing.CliRunner().invoke(app, ["competitions", *words, *state])


def test_every_mistake_is_found_at_once(tmp_path, problems):
    """Fifteen of them, none hides another."""
    path = tmp_path / "competition.toml"
    path.write_text(WRONG)
    mistakes = [str(mistake).removeprefix(f"{path}:").strip() for mistake in read_competition(path, problems)[1]]
    assert all(any(mistake.startswith(text) for mistake in mistakes) for text in EXPECTED_MISTAKES), mistakes
    assert len(mistakes) == len(EXPECTED_MISTAKES)


@pytest.mark.parametrize("data", ["secret = 3", "secret = [3]", "problems = 3", "title = 3\nsecret = []", ""])
def test_a_value_of_another_type_hides_nothing(tmp_path, problems, data):
    """Control: the check ends, and says at least what is missing."""
    path = tmp_path / "competition.toml"
    path.write_text(data)
    assert any("start: is missing" in str(mistake) for mistake in read_competition(path, problems)[1])


def test_a_right_file_is_said_to_be_so(cli, tmp_path):
    """With what it makes, whether it is over, and that others can read its secrets."""
    (tmp_path / "competition.toml").touch(0o644)
    for path, year in ((".", 2020), ("competition.toml", 2999)):
        (tmp_path / "competition.toml").write_text(re.sub(r"(start|end|freeze) = \d+", rf"\1 = {year}", TEXT))
        checked = cli("check", path)
        assert ("UTC, which is over" in checked.output) is (year == 2020)
        assert checked.exit_code == 0 and "ok: spring, problems: vector_add, row_softmax, secret workloads: " in checked.output
        assert "run: chmod 600 competition.toml" in checked.output


VALUES = ("3", '"x"', "[3]", "[]", "{ a = 1 }", "true", "-1", '"cuda"', '["a", "a"]', "2026-01-01", "{ low = 3 }", "[{}]", '""', "9" * 20)


def test_a_spoiled_file_is_read_or_refused(tmp_path, problems):
    """Lines of a right file are left out, doubled, or given other values: never is there another error, nor a secret in one."""
    draw, path, refused = random.Random(1), tmp_path / "competition.toml", 0
    for _ in range(300):
        lines = TEXT.splitlines()
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(lines))
            key = re.match(r"(\s*[\w.]+\s*=)", lines[place])
            if draw.random() < 0.2:
                del lines[place]
            elif draw.random() < 0.1:
                lines.insert(place, lines[place])
            else:
                lines[place] = f"{key[1]} {draw.choice(VALUES)}" if key else draw.choice(("[secret]", "[[secret]]", "[x]", ""))
        path.write_text("\n".join(lines))
        try:
            Competitions.load([path], problems)
        except ProblemInvalid as error:
            texts = [str(error), *(str(mistake) for mistake in read_competition(path, problems)[1])]
            assert not [word for word in SECRET_WORDS for text in texts if word in text]
            refused += 1
    assert 100 < refused < 300, "the control: some load, some do not"


def test_an_import_changes_no_problem_of_a_competition(tmp_path):
    """Not when it is replaced, and not when it is removed; the next server has the new one. Control: another problem changes."""
    imported = tmp_path / "imported"
    for problem_id in ("sum", "free"):
        keep(kept_problem(problem_id, "old"), imported)
    (tmp_path / "competition.toml").write_text(competition_files.toml("spring"))
    store = Problems.load([], imported)
    competitions = Competitions.load([tmp_path / "competition.toml"], store)
    before = problem_for(competitions.get("spring"), store.get("sum"))
    for problem_id in ("sum", "free"):
        keep(kept_problem(problem_id, "new"), imported)
    assert (store.get("sum").title, store.get("free").title) == ("old", "new")
    assert problem_for(competitions.get("spring"), store.get("sum")) == before
    (imported / "sum.json").unlink()
    assert store.get("sum").title == "old"
    keep(kept_problem("sum", "new"), imported)
    assert Problems.load([], imported).get("sum").title == "new"


def test_a_competition_that_others_can_read_is_to_be_closed(settings, tmp_path):
    """Only where it holds a secret; the server starts all the same."""
    path = tmp_path / "competition.toml"
    head = 'name = "spring"\ntitle = "Spring"\nproblems = ["sum"]\nstart = 2026-05-01T00:00:00Z\nend = 2026-05-03T00:00:00Z\n'
    path.write_text(head)
    path.chmod(0o644)
    assert finding(settings, "competitions", competitions=(path,)).standing is CheckupStatus.OK
    path.write_text(f'{head}secret_seed = "{"0" * 32}"\n')
    result = finding(settings, "competitions", competitions=(path,))
    assert result.standing is CheckupStatus.WARNING and result.remedy == f"run: chmod 600 {path}"
    path.chmod(0o600)
    assert finding(settings, "competitions", competitions=(path,)).standing is CheckupStatus.OK


def test_what_has_ended_is_open_to_readers_where_its_file_says_so(tmp_path):
    """From the very end on, and not before; and its sources are kept as long after its end as those of others."""
    fakes.write_problem(tmp_path / "problems", "sum")
    for name, end_h, visibility in (("over", 1, "after_end"), ("running", 2, "after_end"), ("private", 1, "private")):
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "competition.toml").write_text(competition_files.toml(name, -1, end_h, f'visibility = "{visibility}"\n'))
    competitions = Competitions.load([tmp_path / "all"], Problems.load([tmp_path / "problems"]))
    end, moment = competition_files.NOW + timedelta(hours=1), timedelta(microseconds=1)
    assert competitions.readable(end) == {"over"} and not competitions.readable(end - moment)
    assert competitions.ended(end + moment) == ("over", "private") and not competitions.ended(end)


def test_a_generator_of_reference_kernels_gets_its_sizes(tmp_path):
    """There the case holds the sizes, beside what the task says."""
    problems = Problems.load([FIXTURES.parent / "vector_add" / "reference_kernels"])
    (problem,) = problems.all()
    like = next(workload for workload in problem.spec.workloads if not workload.hidden)
    axes = ", ".join(f"{name} = 4242" for name in like.axes)
    text = TEXT.split("[[secret]]")[0].replace('"vector_add", "row_softmax"', f'"{problem.problem_id}"')
    (tmp_path / "competition.toml").write_text(f'{text}\n[[secret]]\nproblem = "{problem.problem_id}"\naxes = {{ {axes} }}\n')
    (secret,) = Competitions.load([tmp_path], problems).get("spring").secret_workloads[problem.problem_id]
    case = json.loads(secret.arguments)["case"]
    assert {case[name] for name in like.axes} == {4242} and secret.hidden
    assert set(case) == set(json.loads(like.arguments)["case"])


PAGE = "competitions.md"
MODELS = [
    (PAGE, "competition", competition_file.CompetitionFile),
    (PAGE, "secret", competition_file.Secret),
    (PAGE, "range", competition_file.SizeRange),
]


@pytest.mark.parametrize(("name", "of", "model"), MODELS)
def test_every_field_has_a_row_with_its_default(name, of, model):
    """And no row is of anything else."""
    pages.check_rows(name, of, model)
    pages.check_defaults(name, of, model)


def test_no_model_and_no_word_is_left_out():
    """A model that is added to the code has to be added here, and a word that a key may be to its page."""
    assert pages.models_of(competition_file) <= {model for _, _, model in MODELS}
    pages.check_words(MODELS)


def test_the_competition_of_the_page_loads(tmp_path):
    """As it is printed, over the problems of kernels_examples."""
    (tmp_path / "competition.toml").write_text(pages.block(PAGE, "toml"))
    (loaded,) = Competitions.load([tmp_path], Problems.load([pages.ROOT / "kernels_examples"])).all()
    assert {key: len(secret) for key, secret in loaded.secret_workloads.items()} == {"vector_add": 1, "row_softmax": 2}
