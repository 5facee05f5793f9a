"""Rejudges over a socket: what facts decide, what is run, what is shown before, and that applying gives it."""

import asyncio
import uuid
from dataclasses import replace
from functools import partial

import pytest

from grader import errors
from grader.api.client import GraderClient
from grader.cli.exits import Exit, UsageError
from grader.ledger import Ledger
from grader.model import NewSubmission, Scope, SourceFile
from grader.problems.store import Problems
from grader.rules.disclosure import Redactor
from grader.server.running import embedded
from grader.v1 import rejudge_pb2, report_pb2, submission_pb2
from grader.verdict.fold import fold
from grader_extensions.competitions import refusals, rejudges
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.competitions.cli import rejudge as command
from grader_extensions.competitions.competition_file import SizeRange, problem_for
from grader_extensions.competitions.rejudge import RejudgeOrder
from grader_extensions.competitions.store import Competitions
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import toml
from tests.server.keyed import keyed_server
from tests.waiting import until

READY, RUNNING = rejudge_pb2.REJUDGE_STATE_READY, rejudge_pb2.REJUDGE_STATE_RUNNING


DRAWN = "[[secret]]\nproblem = 'sum'\naxes = { n = { low = 1000, high = 2000000000 } }\n"


class Sizes(fakes.FakeGrade):
    """Remembers the sizes of secret workloads that it was given, a set for each attempt."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    async def __call__(self, lease):
        self.sizes.append({workload.axes["n"] for workload in lease.problem.spec.workloads if workload.workload_id.startswith("secret-")})
        async for fact in super().__call__(lease):
            yield fact


class Regrade(fakes.FakeGrade):
    """A fake whose runs for a rejudge find other things: by what is replaced in the source."""

    def __init__(self, **replaced):
        super().__init__()
        self.replaced = replaced

    async def __call__(self, lease):
        submission = lease.submission
        if submission.rejudge_id:
            (source,) = submission.new.sources
            content = source.content
            for old, replacement in self.replaced.items():
                content = content.replace(old, replacement)
            draft = replace(submission.new, sources=(replace(source, content=content),))
            lease = replace(lease, submission=replace(submission, new=draft))
        async for fact in super().__call__(lease):
            yield fact


@pytest.fixture
def competition(place):
    """Write the competition's file; the seed decides the problem's digest."""

    def write(seed="0" * 32, extra=""):
        path = place / "competition.toml"
        secret = f'secret_seed = "{seed}"\n[[secret]]\nproblem = "sum"\naxes = {{ n = 777 }}\n'
        path.write_text(toml("spring", -3, 1, secret + extra, problems=("sum", "other")))
        return path

    return write


@pytest.fixture
def change(place):
    """Write the problem anew, with these lines more."""

    def write(extra, name="sum"):
        path = place / "problems" / name / "problem.toml"
        path.write_text(fakes.PROBLEM_TOML.format(name=name) + extra)

    return write


@pytest.fixture
async def handed_in(settings, place, competition):
    """Grade one by the fake before there is a server, as this user's."""

    async def grade(user, order="accept", speedup=2.0, problem="sum", *, to_it=True):
        problems = Problems.load(settings.problems)
        graded_problem = problems.get(problem)
        if to_it:
            graded_problem = problem_for(Competitions.load([competition()], problems).get("spring"), graded_problem)
        content = fakes.source(order) + f"// speedup: {speedup}\n"
        draft = NewSubmission(
            problem_id=problem,
            language="cuda",
            sources=(SourceFile(path="kernel.cu", content=content),),
            device_kind="emulated",
            mode=wire.Mode.RANKED,
            user=user,
            competition_id="spring" if to_it else "",
        )
        submission = await ledger.submit(draft, graded_problem)
        lease = await ledger.lease("w", ttl_s=60, device_kinds=("emulated",))
        facts = [fact async for fact in fakes.FakeGrade()(lease)]
        await ledger.append(lease, facts)
        await ledger.settle(lease, fold(facts, lease.ranking))
        return f"submissions/{submission.submission_id}"

    async with Ledger.open(settings.ledger) as ledger:
        yield grade


async def create(client, request_id="", **fields):
    return await CompetitionCalls(client).create_rejudge(rejudge_pb2.Rejudge(cause="because", **fields), request_id=request_id)


async def until_ready(client, rejudge, condition=lambda current: current.state == READY):
    """Ask for the rejudge until it is ready, or meets another condition."""

    async def look():
        rejudge_now = await CompetitionCalls(client).get_rejudge(rejudge.name)
        return rejudge_now if condition(rejudge_now) else None

    return await until(look)


async def ranks(client, problem="problems/sum"):
    board = await CompetitionCalls(client).get_leaderboard("competitions/spring", problem=problem)
    return {entry.submission: entry.rank for entry in board.entries}


async def test_facts_decide_what_they_can_and_the_rest_is_run(serve, change, kernel, finished):
    """A wider tolerance: what passed passes, by its facts; what missed it is run, by the new problem."""
    async with serve() as client:
        right, wrong = [await finished(client, await client.submit(kernel(order))) for order in ("accept", "wrong")]
        was = (await client.get_problem("problems/sum")).digest
    change("tolerance = { atol = 1.0, rtol = 1.0 }")
    grade = Regrade(wrong="accept")
    async with serve(grade) as client:
        now = (await client.get_problem("problems/sum")).digest
        ready = await until_ready(client, await create(client, problem="problems/sum"))
        assert (ready.submission_count, ready.refolded_count, ready.rerun_count, ready.failed_count) == (2, 1, 1, 0)
        (change_,), count = ready.changes, ready.change_count
        assert count == 1
        assert (change_.submission, change_.before.reason, change_.before.problem_digest) == (wrong.name, "MISMATCH", was)
        assert change_.after.verdict == report_pb2.VERDICT_ACCEPTED and change_.after.problem_digest == now != was
        assert not change_.after.HasField("create_time") and len(grade.attempts) == 1
        for submission in (right, wrong):  # nothing that others see changed
            assert (await client.get_submission(submission.name)).report == submission.report
        assert {listed.name for listed in (await client.list_submissions()).submissions} == {right.name, wrong.name}
        applied = await CompetitionCalls(client).apply_rejudge(ready.name)
        assert applied.state == rejudge_pb2.REJUDGE_STATE_APPLIED and applied.HasField("end_time")
        now_it_is = await client.get_submission(wrong.name, full=True)
        assert now_it_is.report.verdict == report_pb2.VERDICT_ACCEPTED
        history = [(entry.sequence, entry.reason, entry.rejudge) for entry in now_it_is.judgements]
        assert history == [(1, "MISMATCH", ""), (2, "", ready.name)]
        assert [event.sequence async for event in client.watch(wrong.name)][-1] == len([1 async for _ in client.watch(wrong.name)])


async def test_a_server_that_died_while_it_made_a_rejudge_leaves_it_to_the_next(serve, settings, handed_in, competition):
    """Chosen submissions are decided when a server starts, without anybody asking again."""
    await handed_in("ann")
    problem = problem_for(
        Competitions.load([competition()], problems := Problems.load(settings.problems)).get("spring"), problems.get("sum")
    )
    async with Ledger.open(settings.ledger) as ledger:
        order = RejudgeOrder(cause="died", competition_id="spring")

        def make(connection):
            numbers = {problem.digest: [candidate.number for candidate in rejudges.candidates(connection, order)]}
            return rejudges.create(connection, ledger.now(), order, "", "", numbers, [problem], rejudge_id="left")

        await ledger.database.write(make)
    async with serve(competitions=(competition(),)) as client:
        ready = await until_ready(client, rejudge_pb2.Rejudge(name="rejudges/left"))
        assert ready.refolded_count == 1


async def test_a_rejudge_is_counts_until_all_is_decided(serve, kernel, finished):
    """Changes are shown once all is decided, or dropped: each look would make all boards anew. Until then it names the pending run."""
    async with serve() as client:
        right, _ = [await finished(client, await client.submit(kernel(order))) for order in ("accept", "wrong")]
    async with serve(Regrade(wrong="hang", accept="wrong")) as client:
        rejudge = await create(client, problem="problems/sum", method=rejudge_pb2.REJUDGE_METHOD_RUN)
        pending = await until_ready(client, rejudge, lambda state: state.pending_count == 1)
        assert pending.rerun_count == 2 and not pending.changes
        (run,) = pending.pending_runs
        assert "not decided yet; waiting for " + run in "".join(str(part) for part in command.render(pending, 0))
        assert (await client.get_submission(run)).state == submission_pb2.SUBMISSION_STATE_RUNNING
        assert not (await CompetitionCalls(client).list_rejudges()).rejudges[0].pending_runs
        await CompetitionCalls(client).discard_rejudge(rejudge.name)
        dropped = await CompetitionCalls(client).get_rejudge(rejudge.name)
        assert [change.submission for change in dropped.changes] == [right.name] and not dropped.pending_runs


async def test_the_same_request_goes_on_with_what_failed(serve, handed_in, competition):
    """A failure of the grader is reported; asking again with the same id runs only that, in the same rejudge."""
    await handed_in("ann")
    grade, request_id = Regrade(accept="fault"), str(uuid.uuid4())
    fields = {"competition": "competitions/spring", "method": rejudge_pb2.REJUDGE_METHOD_RUN, "request_id": request_id}
    async with serve(grade, competitions=(competition(),)) as client:
        stuck = await until_ready(client, rejudge := await create(client, **fields), lambda state: state.failed_count)
        assert stuck.state == RUNNING and stuck.pending_count == 1
        with pytest.raises(refusals.RejudgeNotReady):
            await CompetitionCalls(client).apply_rejudge(rejudge.name)
        grade.replaced = {}
        assert (await create(client, **fields)).name == rejudge.name
        assert (await until_ready(client, rejudge)).failed_count == 0
        with pytest.raises(errors.RequestIdReused):
            await create(client, problem="problems/sum", request_id=request_id)


async def test_discarding_stops_what_runs(serve, handed_in, competition):
    """At once, as does a watch of a run that waited, and the verdicts of before stay."""
    name, _ = [await handed_in(user) for user in ("ann", "bob")]
    grade = Regrade(accept="hang")
    async with serve(grade, capacity=1, competitions=(competition(),)) as client:
        rejudge = await create(client, competition="competitions/spring", method=rejudge_pb2.REJUDGE_METHOD_RUN)
        await until(lambda: grade.running)
        watch = client.watch((await CompetitionCalls(client).get_rejudge(rejudge.name)).pending_runs[1])
        while not (await anext(watch)).HasField("queue_position"):
            pass
        await CompetitionCalls(client).discard_rejudge(rejudge.name)
        assert (await asyncio.wait_for(anext(watch), 30)).submission.state == submission_pb2.SUBMISSION_STATE_CANCELLED
        await until(lambda: not grade.running)
        assert (await CompetitionCalls(client).get_rejudge(rejudge.name)).state == rejudge_pb2.REJUDGE_STATE_DISCARDED
        assert len((await client.get_submission(name, full=True)).judgements) == 1


async def test_the_best_are_chosen_by_rank(serve, handed_in, competition):
    """A user who shares the last rank is in; of each user only the best."""
    for user, speedup in (("ann", 3.0), ("bob", 2.99), ("cid", 2.0), ("ann", 1.0)):
        await handed_in(user, speedup=speedup)
    async with serve(competitions=(competition(),)) as client:
        tops = [await create(client, competition="competitions/spring", top_count=top, device_kind="emulated") for top in (1, 2, 3)]
        assert [top.submission_count for top in tops] == [2, 2, 3]


@pytest.mark.parametrize("order", ["", "wrong"])
async def test_a_final_of_an_empty_board_says_that_it_is_empty(serve, handed_in, competition, order):
    """An empty board, whether nobody handed in or nothing was right, keeps no rejudge: the same command makes one later."""
    if order:
        await handed_in("ann", order)
    async with serve(competitions=(competition(),)) as client:
        with pytest.raises(errors.InvalidRequest) as refused:
            await command.final_command("spring", 3, "emulated", server=client.address)
        assert "top_count: finds nothing to run again: the board of competition 'spring' is empty" in str(refused.value)
        assert "`grader-cli list --competition spring` says" in str(refused.value)
        with pytest.raises(errors.InvalidRequest, match="competition 'spring', problem 'sum', is empty"):
            await create(client, competition="competitions/spring", problem="problems/sum", top_count=1)
        assert not (await CompetitionCalls(client).list_rejudges()).rejudges


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "problem"),
        ({"problem": "sum"}, "problem"),
        ({"problem": "problems/sum", "top_count": 3}, "top_count"),
        ({"competition": "competitions/spring", "top_count": -1}, "top_count"),
        ({"problem": "problems/sum", "method": 77}, "method"),
        ({"problem": "problems/sum", "device_kind": "toaster"}, "device_kind"),
        ({"submissions": ["submissions/"]}, "submissions[0]"),
        ({"problem": "problems/sum", "fresh_sizes": True}, "fresh_sizes"),
        ({"problem": "problems/sum", "sizes_of": "rejudges/one"}, "sizes_of"),
        ({"competition": "competitions/spring", "fresh_sizes": True, "sizes_of": "rejudges/one"}, "sizes_of"),
        ({"problem": "problems/sum"}, "rejudge"),  # there is none
    ],
)
async def test_a_wrong_field_is_named(client, fields, field):
    """Nothing is made of it."""
    with pytest.raises(errors.InvalidRequest) as refused:
        await create(client, **fields)
    assert [violation.field for violation in refused.value.violations] == [field]
    assert not (await CompetitionCalls(client).list_rejudges()).rejudges


async def test_what_is_not_there_is_not_found(client, kernel, finished):
    """Problems, competitions, submissions, rejudges and devices; and what was not graded can't be judged again."""
    submission = await finished(client, await client.submit(kernel()))
    waits = await client.submit(kernel("hang"))
    refused = [
        (errors.ProblemNotFound, {"problem": "problems/nope"}),
        (errors.CompetitionNotFound, {"competition": "competitions/nope"}),
        (errors.SubmissionNotFound, {"submissions": [submission.name, "submissions/nope"]}),
        (errors.NoSuchDevice, {"problem": "problems/sum", "device_kind": "cuda:H200"}),
        (errors.InvalidRequest, {"submissions": [submission.name, waits.name]}),
        (errors.InvalidRequest, {"submissions": [submission.name], "problem": "problems/other"}),
    ]
    for error, fields in refused:
        with pytest.raises(error):
            await create(client, **fields)
    for call in (CompetitionCalls(client).get_rejudge, CompetitionCalls(client).apply_rejudge, CompetitionCalls(client).discard_rejudge):
        with pytest.raises(refusals.RejudgeNotFound):
            await call("rejudges/nope")
        with pytest.raises(errors.InvalidRequest):
            await call("nope")


async def test_a_run_is_shown_to_administrators_only(settings, kernel):
    """Its owner sees neither it nor its events, on no list, and can't cancel it."""
    grade = fakes.FakeGrade()
    async with keyed_server(settings, grade) as keyed:
        ann, root = await keyed.key("ann"), await keyed.key("root", tuple(Scope))
        async with keyed.client(ann) as user, keyed.client(root) as admin:
            submission = await user.submit(kernel())
            [event async for event in user.watch(submission.name)]
            rejudge = await until_ready(admin, await create(admin, problem="problems/sum", method=rejudge_pb2.REJUDGE_METHOD_RUN))
            assert rejudge.user == "root"
            run = f"submissions/{grade.attempts[-1][0]}"
            assert run != submission.name and (await admin.get_submission(run)).user == "ann"
            for call in (user.get_submission, user.cancel, lambda name: anext(aiter(user.watch(name)))):
                with pytest.raises(errors.SubmissionNotFound):
                    await call(run)
            names = [entry.name for client in (user, admin) for entry in (await client.list_submissions()).submissions]
            assert names == [submission.name] * 2
            with pytest.raises(errors.PermissionDenied):
                await CompetitionCalls(user).get_rejudge(rejudge.name)


async def test_events_keep_hidden_what_was_hidden_when_they_were_made(serve, place, change, kernel, finished):
    """A new problem without that hidden workload must not give its name away, whatever the submission was judged by since."""
    async with serve() as client:
        submission = await finished(client, await client.submit(kernel()))
    problem = place / "problems" / "sum" / "problem.toml"
    problem.write_text(problem.read_text().replace("secret33", "secret44"))
    async with serve() as client:
        ready = await until_ready(client, await create(client, problem="problems/sum"))
        await CompetitionCalls(client).apply_rejudge(ready.name)
        assert "secret" not in str([event async for event in client.watch(submission.name)])
        mask = Redactor.for_problem(Problems.load([place / "problems"]).get("sum"))
        assert mask.name("secret33") == "secret33"  # the control: the new problem alone would have told it


async def test_a_reader_shows_rejudges_and_makes_none(serve, settings, kernel, finished):
    """Beside a server that grades, or without one."""
    async with serve() as client:
        await finished(client, await client.submit(kernel()))
        rejudge = await create(client, problem="problems/sum")
    async with embedded(settings, reader=True) as address, GraderClient(address) as client:
        assert (await CompetitionCalls(client).get_rejudge(rejudge.name)).submission_count == 1
        for call in (
            create(client, problem="problems/sum"),
            CompetitionCalls(client).apply_rejudge(rejudge.name),
            CompetitionCalls(client).discard_rejudge(rejudge.name),
        ):
            with pytest.raises(errors.ReadOnly):
                await call


async def test_the_same_final_goes_on_across_servers_and_is_applied_once(serve, handed_in, competition, capsys):
    """The command is asked again after a restart, and finds what it began; --again makes another one."""
    first, second = await handed_in("ann", speedup=3.0), await handed_in("bob", speedup=2.0)
    grade = Regrade(accept="hang")
    async with serve(grade, competitions=(competition(),)) as client:
        running = asyncio.create_task(command.final_command("spring", 2, "emulated", apply=True, server=client.address))
        await until(lambda: grade.running == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        (begun,) = (await CompetitionCalls(client).list_rejudges()).rejudges
    async with serve(Regrade(**{"speedup: 3.0": "speedup: 1.0"}), competitions=(competition(),)) as client:
        final = partial(command.final_command, "competitions/spring", 2, "emulated", server=client.address)
        assert await final(apply=True) is Exit.DONE
        assert await ranks(client) == {second: 1, first: 2}
        assert await final(apply=True) is Exit.DONE
        (applied,) = (await CompetitionCalls(client).list_rejudges()).rejudges
        assert applied.name == begun.name and applied.method == rejudge_pb2.REJUDGE_METHOD_RUN
        out = capsys.readouterr().out
        assert "final of spring: the best 2 run again on emulated" in out and "APPLIED" in out and first in out
        await final(again="a second time")
        assert len((await CompetitionCalls(client).list_rejudges()).rejudges) == 2


async def test_a_final_says_who_is_ranked_by_what_was_not_run_again(serve, handed_in, competition, capsys):
    """A user's second best takes the place of a best that fell behind it: whoever decides has to know."""
    await handed_in("ann", speedup=3.0)
    best_name = await handed_in("ann", speedup=2.5)
    async with serve(Regrade(**{"speedup: 3.0": "speedup: 1.0"}), competitions=(competition(),)) as client:
        await command.final_command("spring", 1, "emulated", server=client.address)
    out = " ".join(capsys.readouterr().out.split())
    assert f"ann is now ranked by {best_name}, which was not run again" in out
    assert "rejudge create --run --competition competitions/spring --sizes-of rejudges/" in out


async def test_a_final_is_run_at_secret_sizes_of_its_own(serve, handed_in, competition, capsys):
    """Drawn anew, also for a second final, and kept over a restart; a size that is no range stays, as do those of another rejudge."""
    await handed_in("ann")
    ours = (competition(extra=DRAWN),)
    best = {"competition": "spring", "top": 1, "run_all": True, "device": "emulated"}
    grade = Sizes()
    async with serve(grade, competitions=ours) as client:
        for again in ("", "second"):
            await command.final_command("spring", 1, "emulated", again=again, server=client.address)
        await command.create_command("of the file", **best, server=client.address)
    async with serve(grade, competitions=ours) as client:
        await command.final_command("spring", 1, "emulated", apply=True, server=client.address)  # goes on, and runs nothing more
        assert len(grade.sizes) == 3
        finals = [rejudge for rejudge in (await CompetitionCalls(client).list_rejudges()).rejudges if rejudge.fresh_sizes]
        await command.create_command("like the second", **best, sizes_of=finals[0].name, server=client.address)
        file = next(rejudge for rejudge in (await CompetitionCalls(client).list_rejudges()).rejudges if rejudge.cause == "of the file")
        with pytest.raises(errors.InvalidRequest, match="drew no sizes"):
            await create(client, competition="competitions/spring", sizes_of=file.name)
        with pytest.raises(refusals.RejudgeNotFound):
            await create(client, competition="competitions/spring", sizes_of="rejudges/nope")
    assert all(777 in sizes and len(sizes) == 2 for sizes in grade.sizes)
    drawn = [max(sizes) for sizes in grade.sizes]
    assert len({*drawn[:3]}) == 3 and drawn[3] == drawn[1]
    assert not [size for size in drawn if str(size) in capsys.readouterr().out]


async def test_sizes_that_can_not_be_drawn_are_said_and_nothing_is_made(serve, handed_in, competition):
    """An expression may have a value at the file's sizes and none at others."""
    await handed_in("ann")
    size = SizeRange(low=1000, high=2_000_000_000).drawn("0" * 32, "spring/sum/1/0/n")
    ours = competition(extra=f"{DRAWN}moved_bytes = '0 - (n - {size}) ** 2'\n")
    async with serve(competitions=(ours,)) as client:
        with pytest.raises(errors.InvalidRequest, match="has no value at these axes") as refused:
            await create(client, competition="competitions/spring", fresh_sizes=True)
        assert str(size) not in str(refused.value) and not (await CompetitionCalls(client).list_rejudges()).rejudges
        assert (await create(client, competition="competitions/spring")).submission_count == 1  # the control: as the file has it


async def test_the_commands_show_list_apply_and_discard(serve, kernel, finished, capsys):
    """In words and as JSON; what the grader failed at is an exit code of its own."""
    async with serve(Regrade(accept="wrong", slow="fault")) as client:
        submissions = [await finished(client, await client.submit(kernel(order))) for order in ("accept", "slow")]
        server = client.address
        first, second = (partial(command.create_command, "a bug", submission=[submission.name], run_all=True) for submission in submissions)
        assert await first(server=server) is Exit.DONE
        out = capsys.readouterr().out
        assert "WRONG_ANSWER MISMATCH" in out and "grader-cli rejudge apply rejudges/" in out and "1 by runs" in out
        assert await second(server=server, apply=True) is Exit.GRADER_FAILED
        assert "runs them again" in capsys.readouterr().err
        await command.show_command(limit=9, server=server)
        assert capsys.readouterr().out.count("a bug") == 2
        failed, good = (await CompetitionCalls(client).list_rejudges()).rejudges
        assert await command.apply_command(good.name.removeprefix("rejudges/"), server=server, json=True) is Exit.DONE
        assert '"REJUDGE_STATE_APPLIED"' in capsys.readouterr().out
        await command.discard_command(failed.name, server=server, json=False)
        assert "DISCARDED" in capsys.readouterr().out
        assert (await client.get_submission(submissions[0].name)).report.verdict == report_pb2.VERDICT_WRONG_ANSWER
        assert (await client.get_submission(submissions[1].name)).state == submission_pb2.SUBMISSION_STATE_SUCCEEDED
        with pytest.raises(UsageError):
            await first(no_wait=True)
