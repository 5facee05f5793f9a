"""`grader.grade` and `agrade` with a server that is named: verdicts, refusals, backpressure, and every way in which no verdict comes."""

import asyncio
import sys
import threading
from unittest import mock

import pytest

import grader
from grader.api import client
from grader.errors import QueueFull
from grader.python import calls, serve
from grader.python.results import MARK
from grader.v1 import submission_pb2
from tests import fakes
from tests.server.conftest import kernel
from tests.threaded_server import threaded_server

DEADLINE_S = 300.0
CANCELLED = submission_pb2.SUBMISSION_STATE_CANCELLED


@pytest.fixture
def grade():
    return fakes.FakeGrade()


@pytest.fixture
def server(place, grade):
    with threaded_server(place, grade, auth="none") as running:
        yield running.address


def sent(order):
    return {"kernel.cu": fakes.source(order)}


async def test_a_right_and_a_wrong_kernel_from_a_loop_that_runs(server):
    """As in a notebook: `grade` in its thread, and `agrade` in its loop."""
    assert grader.grade(sent("accept"), "sum", server=server, tags=["a"]).reward() > 0
    wrong = await grader.agrade(sent("wrong"), "sum", server=server)
    assert (wrong.verdict, wrong.reward()) == ("WRONG_ANSWER", 0.0) and wrong.name.startswith("submissions/")


@pytest.mark.slow
def test_more_calls_than_the_queue_has_room_for_wait(place, grade):
    """None fails. The control: a client that does not wait is refused."""
    with threaded_server(place, grade, auth="none", queue_limit=40) as running:
        with grader.SyncGraderClient(running.address) as client:
            answers = client.batch_submit([kernel()] * 100)
        assert any(isinstance(answer, QueueFull) for answer in answers)

        async def all_at_once():
            orders = ["accept" if number % 5 < 2 else "wrong" for number in range(512)]
            return await asyncio.gather(*(grader.agrade(sent(order), "sum", server=running.address) for order in orders))

        results = asyncio.run(all_at_once())
        assert [result.accepted for result in results] == [number % 5 < 2 for number in range(512)]
        assert len({result.name for result in results}) == 512


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"problem": "no_such_problem"}, "PROBLEM_NOT_FOUND"),
        ({"device": "cuda:B200"}, "NO_SUCH_DEVICE"),
        ({"mode": "fast"}, "INVALID_REQUEST"),
        ({"problem": "/no/such/path"}, "INVALID_REQUEST"),
        ({"problem": "n" * 5000}, "INVALID_REQUEST"),
        ({"problem": "\ud800"}, "INVALID_REQUEST"),
        ({"problem": None}, "INVALID_REQUEST"),
        ({"entry": "\ud800"}, "INVALID_REQUEST"),
        ({"server": "\ud800"}, "INVALID_REQUEST"),
        ({"timeout_s": "1"}, "INVALID_REQUEST"),
        ({"kernel": 7}, "INVALID_REQUEST"),
        ({"tags": ["no tag"]}, "INVALID_SUBMISSION"),
        ({"kernel": "/no/such/kernel.cu"}, "INVALID_REQUEST"),
    ],
)
def test_a_wrong_call_is_refused_with_its_reason(server, options, reason):
    """No fault of the kernel's, whoever wrote that."""
    with pytest.raises(grader.CallInvalid) as refused:
        grader.grade(**{"kernel": sent("accept"), "problem": "sum", "server": server} | options)
    assert refused.value.reason == reason and not isinstance(refused.value, grader.KernelInvalid)


@pytest.mark.parametrize(
    "kernel",
    [
        "\n",
        {"kernel.py": ""},
        "\ud800\n",
        "{\n}",
        "x\n" * (1 << 20),
        {"a/../b.py": "x\n"},
        len,
        lambda a: a,
        {"\ud800.py": "x\n"},
        {"a.py": b"x\n"},
        b"x\n",
    ],
)
def test_a_kernel_that_is_none_is_refused_as_such(server, kernel):
    with pytest.raises(grader.KernelInvalid, match=r"^sources"):
        grader.grade(kernel, "sum", server=server)


def test_a_path_of_this_host_is_not_read_by_a_server_that_is_named(server, place):
    with pytest.raises(grader.CallInvalid, match="does not see"):
        grader.grade(sent("accept"), place / "problems", server=server)


def test_a_model_can_name_no_file_of_this_host(server, place):
    """Text that is given by a file name is text. The control: as a string without a line break it is a path."""
    path = place / "kernel.cu"
    path.write_text(fakes.source("accept"))
    assert grader.grade(str(path), "sum", server=server).accepted
    with pytest.raises(grader.KernelInvalid):
        grader.grade({"kernel.cu": str(path)}, "sum", server=server)


def test_a_key_that_is_wrong_is_no_reward(place, grade):
    with threaded_server(place, grade, listen="127.0.0.1:0") as running:
        key = running.key("alice")
        with pytest.raises(grader.CallInvalid) as refused:
            grader.grade(sent("accept"), "sum", server=running.address, key="wrong")
        assert refused.value.reason == "UNAUTHENTICATED"
        assert grader.grade(sent("accept"), "sum", server=running.address, key=key).accepted


@pytest.mark.parametrize("order", ["fault", "bug"])
def test_a_failure_of_the_grader_is_no_result(server, order):
    with pytest.raises(grader.Unscored, match="no verdict after 3 attempts") as failure:
        grader.grade(sent(order), "sum", server=server)
    assert not isinstance(failure.value, grader.CallInvalid)


@pytest.mark.parametrize("error", [TimeoutError(), OSError("no space left")])
def test_what_the_system_refuses_is_no_result(server, monkeypatch, error):
    monkeypatch.setattr(calls, "follow", mock.Mock(side_effect=error))
    with pytest.raises(grader.Unscored, match="the call failed") as failure:
        grader.grade(sent("accept"), "sum", server=server)
    assert failure.value.reason == "GRADER_FAILED"


def test_no_server_is_no_result():
    with pytest.raises(grader.Unscored, match="nothing listens there") as failure:
        grader.grade(sent("accept"), "sum", server="127.0.0.1:1")
    assert failure.value.reason == "SERVER_UNREACHABLE"


def ended(server, state):
    """Wait until a server has one submission, which is in this state."""
    with grader.SyncGraderClient(server) as client:
        (submission,) = client.list_submissions().submissions
        last = list(client.watch(submission.name))[-1]
    return last.submission.state == state


def test_a_call_that_takes_too_long_cancels_its_submission(server):
    with pytest.raises(grader.Unscored) as failure:
        grader.grade(sent("hang"), "sum", server=server, timeout_s=1.0)
    assert failure.value.reason == "TIMED_OUT" and ended(server, CANCELLED)


async def test_a_task_that_is_cancelled_cancels_its_submission(server, grade):
    task = asyncio.create_task(grader.agrade(sent("hang"), "sum", server=server))
    async with asyncio.timeout(DEADLINE_S):
        while not grade.running:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended, server, CANCELLED)


async def test_what_others_submitted_is_not_cancelled_with_the_rest_of_a_caller(server, monkeypatch):
    """On whichever page the caller's are."""
    monkeypatch.setattr(client, "PAGE_SIZE", 1)
    monkeypatch.setattr(sys, "argv", ["serve", "caller"])
    async with client.GraderClient(server) as connected:
        names = []
        for marks in ({MARK: "caller"}, {}, {MARK: "other"}, {MARK: "caller"}):
            message = kernel("hang")
            message.annotations.update(marks)
            names.append((await connected.submit(message)).name)
        await serve._cancel_rest(connected)
        ends = [await connected.get_submission(name) for name in names]
    assert [end.cancel_requested or end.state == CANCELLED for end in ends] == [True, False, False, True]


def test_the_client_without_await_has_its_methods_from_any_thread(server):
    states = []

    def follow():
        with grader.SyncGraderClient(server) as client:
            message = submission_pb2.Submission(problem="problems/sum")
            message.sources.add(path="kernel.cu", content=fakes.source("accept"))
            states.extend(event.submission.state for event in client.watch(client.submit(message).name))

    threads = [threading.Thread(target=follow) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states.count(submission_pb2.SUBMISSION_STATE_SUCCEEDED) == 3
