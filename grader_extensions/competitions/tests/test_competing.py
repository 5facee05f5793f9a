"""Competitions and quotas over a real socket."""

import asyncio
import sys
from datetime import UTC

import pytest

from grader.api.client import GraderClient
from grader.errors import CompetitionNotFound, InvalidRequest, InvalidSubmission, NoSuchDevice
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import competition_pb2, submission_pb2
from grader_extensions.competitions.calls import CompetitionCalls
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import NOW, toml
from tests.server.test_example_clients import ROOT, files, output  # noqa: F401  # a fixture


@pytest.fixture
def competitions(place):
    """Write competitions, and say where they are."""

    def write(**texts):
        for name, text in texts.items():
            (place / "competitions" / name).mkdir(parents=True)
            (place / "competitions" / name / "competition.toml").write_text(text)
        return (place / "competitions",)

    return write


async def test_a_competition_is_shown_without_its_secrets(serve, competitions):
    """How many there are, and where it is in its life."""
    secret = f'secret_seed = "{"ab" * 16}"\nhourly_limit = 3\nprocesses = 2\n[[secret]]\nproblem = "sum"\naxes = {{ n = 987654 }}\n'
    async with serve(competitions=competitions(one=toml("one", extra=secret))) as client:
        shown = await CompetitionCalls(client).get_competition("competitions/one")
        assert dict(shown.secret_workload_counts) == {"sum": 1} and (shown.hourly_limit, shown.process_count) == (3, 2)
        assert shown.state == competition_pb2.COMPETITION_STATE_OPEN and shown.problems == ["problems/sum"]
        assert "987654" not in str(shown) and "abab" not in str(shown)
        with pytest.raises(CompetitionNotFound):
            await CompetitionCalls(client).get_competition("competitions/two")
        with pytest.raises(InvalidRequest):
            await CompetitionCalls(client).get_competition("one")


async def test_competitions_are_listed_by_name_in_pages(serve, competitions):
    """Whatever their phase."""
    texts = {"c": toml("c", 1, 2), "a": toml("a"), "b": toml("b", -2, -1)}
    async with serve(competitions=competitions(**texts)) as client:
        first = await CompetitionCalls(client).list_competitions(page_size=2)
        second = await CompetitionCalls(client).list_competitions(page_size=2, page_token=first.next_page_token)
        assert [entry.name[-1] for entry in (*first.competitions, *second.competitions)] == ["a", "b", "c"] and not second.next_page_token
        states = [entry.state for entry in (*first.competitions, *second.competitions)]
        assert states == [
            competition_pb2.COMPETITION_STATE_OPEN,
            competition_pb2.COMPETITION_STATE_ENDED,
            competition_pb2.COMPETITION_STATE_UPCOMING,
        ]


async def test_a_submission_is_of_the_competition_s_problems_and_devices(serve, competitions, kernel, finished):
    """The device is its first where none is asked for; every mode that leaves no files may be submitted."""
    async with serve(competitions=competitions(one=toml("one"))) as client:
        with pytest.raises(InvalidRequest, match="'other' is not a problem of competition 'one'; take one of: problems/sum"):
            await client.submit(kernel(problem="other", competition_id="one"))
        with pytest.raises(InvalidRequest, match="'cuda' is not a device of competition 'one'; leave it out, or take one of: emulated"):
            await client.submit(kernel(competition_id="one", device_kind="cuda"))
        for mode in (wire.Mode.TEST, wire.Mode.RANKED):
            submission = await client.submit(kernel(competition_id="one", mode=mode))
            assert (submission.competition, submission.device_kind) == ("competitions/one", "emulated")
            assert (await finished(client, submission)).state == submission_pb2.SUBMISSION_STATE_SUCCEEDED


async def test_practice_on_hidden_workloads_alone_is_refused(serve, competitions, kernel, place):
    """Nothing would be run. The control: the competition's own mode runs hidden workloads, so it is taken."""
    fakes.write_problem(place / "problems", "sum", fakes.PROBLEM_TOML.format(name="sum").replace("n = 64 }", "n = 64 }, hidden = true"))
    async with serve(competitions=competitions(one=toml("one"))) as client:
        with pytest.raises(InvalidRequest, match="only MODE_RANKED runs hidden workloads, and 'emulated' has no other"):
            await client.submit(kernel(competition_id="one", mode=wire.Mode.TEST))
        await client.submit(kernel(competition_id="one", mode=wire.Mode.RANKED))


async def test_a_competition_on_a_device_that_is_not_here_says_so(serve, competitions, kernel):
    """Rather than to let submissions wait for ever."""
    async with serve(competitions=competitions(gpus=toml("gpus", devices=("cuda:H200",)))) as client:
        with pytest.raises(NoSuchDevice, match="'cuda:H200' is here, and there is no other to take; ask"):
            await client.submit(kernel(competition_id="gpus"))


async def test_a_problem_is_graded_with_secret_workloads_only_in_its_competition(serve, competitions, kernel, finished):
    """Of the same problem, with and without."""
    secret = f'secret_seed = "{"ab" * 16}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = 987654 }}\n'
    async with serve(competitions=competitions(one=toml("one", extra=secret))) as client:
        inside, outside = [await client.submit(kernel(**fields)) for fields in ({"competition_id": "one"}, {})]
        reports = [(await finished(client, submission)).report for submission in (inside, outside)]
        assert [len([trial for trial in report.trials if trial.hidden]) for report in reports] == [2, 1]


async def place_of(client, submission):
    """Refused at once, unless the queue was read just before: it is not read again for each."""
    while not (shown := await client.get_submission(submission.name)).HasField("queue_position"):
        await asyncio.sleep(0.05)
    return shown.queue_position.ahead_count


@pytest.mark.slow
async def test_places_in_the_queue_are_told(serve, grade, kernel):
    """By Submit and GetSubmission, and to those who watch when they change; watched again after the last sequence, nothing is missed."""
    async with serve(grade, capacity=1) as client:
        running = await client.submit(kernel("hang"))
        while (await client.get_submission(running.name)).state == submission_pb2.SUBMISSION_STATE_QUEUED:
            await asyncio.sleep(0.01)
        queued = [await client.submit(kernel("hang")) for _ in range(3)]
        while [await place_of(client, submission) for submission in queued] != [0, 1, 2]:  # a busy machine is asked rarely
            pass
        events = []
        async for event in client.watch(queued[2].name):
            events.append(event)
            if event.WhichOneof("event") == "queue_position":
                assert event.sequence == 1 and not event.queue_position.HasField("estimated_duration")
                if event.queue_position.ahead_count == 1:
                    break
                await client.cancel(queued[0].name)
        assert [update.queue_position.ahead_count for update in events if update.HasField("queue_position")] == [2, 1]
        await client.cancel(queued[2].name)
        rest = [event async for event in client.watch(queued[2].name, after_sequence=events[-1].sequence)]
        assert [(update.sequence, update.submission.state) for update in rest] == [(2, submission_pb2.SUBMISSION_STATE_CANCELLED)]
        assert not (await client.get_submission(queued[2].name)).HasField("queue_position")


async def test_a_competition_takes_no_profile(serve, competitions, kernel):
    """Its files could carry a secret size from the process that met it. The control: a test of the same kernel is taken."""
    async with serve(competitions=competitions(one=toml("one"))) as client:
        with pytest.raises(InvalidSubmission, match="a competition takes no MODE_PROFILE"):
            await client.submit(kernel(competition_id="one", mode=wire.Mode.PROFILE))
        submission = await client.submit(kernel(competition_id="one", mode=wire.Mode.TEST))
        assert submission.mode == submission_pb2.MODE_TEST


async def test_what_is_left_of_quotas_is_shown_where_it_is_asked_for(serve, competitions, kernel):
    """The server's and those of open competitions, as they are used; a competition that is over limits nobody."""
    texts = {"one": toml("one", extra="hourly_limit = 2"), "over": toml("over", -2, -1, extra="hourly_limit = 2")}
    async with serve(competitions=competitions(**texts), daily_limit=3) as client:
        submission = kernel()
        submission.competition = "competitions/one"
        await client.submit(submission)
        assert not (await client.get_caller()).quotas
        quotas = (await client.get_caller(with_quotas=True)).quotas
        shown = [(quota.competition, quota.limit, quota.window.seconds, quota.used_count) for quota in quotas]
        assert shown == [("", 3, 86_400, 1), ("competitions/one", 2, 3600, 1)]
        assert all(quota.next_time.ToDatetime(UTC) > NOW for quota in quotas)


async def test_a_sweep_is_for_no_competition(serve, competitions, kernel):
    """Boards count what is graded on the competition's workloads."""
    async with serve(competitions=competitions(one=toml("one"))) as client:
        with pytest.raises(InvalidRequest) as refused:
            await client.submit(kernel("accept", mode=wire.Mode.SWEEP, competition_id="one"))
    assert [violation.field for violation in refused.value.violations] == ["mode"]


async def test_a_competition_is_filled_with_users_and_their_submissions(settings, files, place):  # noqa: F811  # a fixture
    """A user each from a file of keys; what each submitted is on the board."""
    (place / "competition.toml").write_text(toml("spring"))
    kernels = files / "kernels" / "sum"
    kernels.mkdir(parents=True)
    for order in ("accept", "wrong"):
        (kernels / f"{order}.cu").write_text(fakes.source(order))
    async with Ledger.open(settings.ledger) as ledger:
        keys = [(user, (await ledger.keys.create(user, frozenset({Scope.SUBMIT, Scope.READ})))[1]) for user in ("ann", "ben")]
    (files / "keys.csv").write_text("user,key_id,key,note\n" + "".join(f"{user},id,{key},\n" for user, key in keys))
    there = settings.model_copy(update={"listen": "127.0.0.1:0", "auth": "keys", "competitions": (place / "competition.toml",)})
    async with serving(there, fakes.wiring()) as running:
        script = ROOT / "examples" / "fill_competition.py"
        code, out, error = await output(
            sys.executable, script, "spring", files / "keys.csv", files / "kernels", GRADER_SERVER=running.address
        )
        assert (code, error) == (0, "") and len(out.splitlines()) == 4
        async with GraderClient(running.address, key=keys[0][1]) as client:
            board = await CompetitionCalls(client).get_leaderboard("competitions/spring", problem="problems/sum")
    assert sorted(entry.user for entry in board.entries) == ["ann", "ben"]
