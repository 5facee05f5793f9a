"""Which submissions a list shows, on both databases, and that a ledger's size is not in what it costs."""

import itertools
import random

import pytest
import sqlalchemy as sa

from grader.ledger import Ledger
from grader.ledger.statements import SubmissionFilter
from grader.ledger.tables import submission_tags, submissions
from grader.model import SubmissionState, Verdict
from tests.board_rows import filled, rows
from tests.postgres import postgres  # noqa: F401  # a fixture
from tests.vm_steps import vm_steps

RARE = Verdict.COMPILE_ERROR
OPEN = frozenset({"spring"})


def varied(count):
    """Of three users, in a competition that is open to readers, in one that is not, and in none; each hundredth with a rare verdict."""
    rng = random.Random(3)
    for number, row in enumerate(rows(count)):
        verdict, state = rng.choice([("ACCEPTED", "succeeded"), ("WRONG_ANSWER", "succeeded"), (None, "failed"), (None, "cancelled")])
        row |= {"verdict": verdict, "state": state} if number % 100 else {"verdict": RARE, "state": "succeeded"}
        row["tags"] = "" if number % 7 else "sweep"
        yield row | {"user_name": f"user-{number % 3}", "competition_id": rng.choice(["spring", "autumn", ""])}


async def filled_with_tags(ledger, entries):
    """Write rows, and their tags to where they are found by."""
    await filled(ledger, entries)
    table = submissions.c
    query = sa.select(table.tags, table.user_name, table.number).where(table.tags != "")
    insert = sa.insert(submission_tags).from_select(["tag", "user_name", "number"], query)
    await ledger.database.write(lambda connection: connection.execute(insert))


def matches(row, wanted, problem_id, states):
    """Return whether a list shows the row, by the words of `SubmissionFilter`."""
    opened = frozenset() if wanted.tag else wanted.open_competitions - {""}
    visible = wanted.seen_by in (None, row["user_name"]) or row["competition_id"] in opened
    equal = {"user_name": wanted.user, "competition_id": wanted.competition_id, "problem_id": problem_id}
    return (
        visible
        and all(row[name] == value for name, value in equal.items() if value)
        and (not wanted.tag or row["tags"] == wanted.tag)
        and (not wanted.verdicts or row["verdict"] in wanted.verdicts)
        and (not states or row["state"] in states)
        and row["submission_id"].startswith(wanted.id_prefix)
    )


async def test_a_list_shows_what_its_filters_and_its_reader_allow(ledger):
    """All combinations of readers and what they ask for, page by page, compared with a look at each row. What is in no competition is not
    opened to readers by an empty name."""
    entries = list(varied(300))
    await filled_with_tags(ledger, entries)
    prefix = entries[7]["submission_id"][:2]
    choices = {
        **{"user": ["", "user-1"], "competition_id": ["", "spring", "autumn"], "seen_by": [None, "user-1", "user-2", ""]},
        **{"open_competitions": [frozenset(), OPEN, OPEN | {""}]},
    }
    rare_choices = {"verdicts": [(), (RARE,), (RARE, Verdict.ACCEPTED)], "id_prefix": ["", prefix, "F", "zz"], "tag": ["sweep", "other"]}
    rng = random.Random(5)
    for values, name in itertools.product(itertools.product(*choices.values()), rare_choices):
        wanted = SubmissionFilter(**dict(zip(choices, values, strict=True)), **{name: rng.choice(rare_choices[name])})
        problem_id = rng.choice(["", "sum"])
        states = rng.choice([(), *((state,) for state in SubmissionState), (SubmissionState.FAILED, SubmissionState.SUCCEEDED)])
        shown, before = [], None
        while True:
            page, before = await ledger.page(size=40, before=before, problem_id=problem_id, states=states, submission_filter=wanted)
            shown += [submission.submission_id for submission in page]
            if before is None:
                break
        assert shown == [row["submission_id"] for row in reversed(entries) if matches(row, wanted, problem_id, states)], wanted


@pytest.mark.parametrize(("language", "pair"), [("da", "aa"), ("cy", "dd"), ("en", "")])
async def test_ids_are_found_by_their_beginning_however_a_database_sorts(postgres, language, pair):  # noqa: F811
    """Where two letters are one that follows them, also across the end of what is asked for. The control is a language without any."""
    async with Ledger.open(postgres.database(language=language)) as ledger:
        entries = list(rows(64))
        for row, letters in zip(entries, itertools.product("0adf", repeat=3), strict=True):
            row["submission_id"] = "".join(letters) + row["submission_id"][3:]
        await filled(ledger, entries)
        follows = await ledger.database.read(lambda connection: connection.scalar(sa.select(sa.literal(pair) > f"{pair[:1]}z")))
        assert follows == bool(pair)
        for prefix in {row["submission_id"][:length] for row in entries for length in (1, 2, 3, 4)}:
            shown, _ = await ledger.page(size=64, submission_filter=SubmissionFilter(id_prefix=prefix))
            expected = {row["submission_id"] for row in entries if row["submission_id"].startswith(prefix)}
            assert {submission.submission_id for submission in shown} == expected, prefix


LISTS = [
    {},
    {"id_prefix": "zz"},
    {"id_prefix": "0123456"},
    {"verdicts": (RARE,)},
    {"verdicts": (RARE, Verdict.ACCEPTED)},
    {"states": (SubmissionState.QUEUED, SubmissionState.FAILED)},
    {"user": "user-1"},
    {"seen_by": "user-1"},
    {"seen_by": "user-1", "states": (SubmissionState.SUCCEEDED,)},
    {"seen_by": "user-1", "competition_id": "spring", "open_competitions": OPEN},
    {"seen_by": "user-1", "user": "user-2", "open_competitions": OPEN},
    {"user": "user-1", "verdicts": (RARE,)},
    {"user": "user-1", "states": (SubmissionState.QUEUED,)},
    {"user": "user-1", "competition_id": "winter"},
    {"competition_id": "spring", "verdicts": (RARE,)},
    {"problem_id": "sum", "verdicts": (RARE,)},
    {"problem_id": "sum", "states": (SubmissionState.FAILED,)},
    {"tag": "sweep"},
    {"tag": "sweep", "user": "user-1"},
    {"tag": "sweep", "seen_by": "user-1"},
]


async def test_a_list_of_a_large_ledger_takes_no_more_steps(tmp_path):
    """In steps of SQLite's machine: of 12,000 at most twice those of 2,400, for a page of 5."""
    steps = []
    for count in (2_400, 12_000):
        async with Ledger.open(tmp_path / f"{count}") as ledger:
            await filled_with_tags(ledger, list(varied(count)))
            steps.append([await _steps(ledger, dict(fields)) for fields in LISTS])
    for fields, few, many in zip(LISTS, *steps, strict=True):
        assert many <= 2 * few + 50, (fields, few, many)


async def _steps(ledger, fields):
    states, problem_id = fields.pop("states", ()), fields.pop("problem_id", "")
    query = SubmissionFilter(**fields).newest(6, None, problem_id, states)
    return await vm_steps(ledger, lambda connection: connection.execute(query).all())
