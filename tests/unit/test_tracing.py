"""Traces of attempts, with the SDK's exporter that keeps them in memory; and what an attempt's log lines carry."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from grader.dispatch.dispatcher import Dispatcher
from grader.ledger import Ledger
from grader.observability import log
from grader.observability.observer import Observer
from grader.observability.tracing import Tracing
from tests import fakes

sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def heard():
    """Log in JSON during the test, and restore the configuration: other tests let nothing be logged."""
    before = structlog.get_config()
    log.configure("json")
    yield
    structlog.configure(**before)


@pytest.fixture
def spans():
    return memory.InMemorySpanExporter()


@pytest.fixture
def traced(spans):
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    return Tracing(provider)


async def graded(tmp_path, observer, *orders):
    """Grade submissions to their ends, and return their ids."""
    async with Ledger.open(tmp_path / "l") as ledger, asyncio.timeout(300), asyncio.TaskGroup() as group:
        dispatcher = Dispatcher(ledger, fakes.FakeGrade(), capacity=lambda: 2, observer=observer)
        group.create_task(dispatcher.run())
        names = [(await ledger.submit(fakes.new_submission(order), fakes.problem())).submission_id for order in orders]
        dispatcher.wake()
        for name in names:
            with ledger.changes.of(name) as changed:
                while not (await ledger.get(name)).state.final:
                    await changed.wait()
                    changed.clear()
        dispatcher.drain(5)
    return names


async def test_an_attempt_is_one_trace_with_a_span_a_stage(tmp_path, traced, spans):
    (submission_id,) = await graded(tmp_path, traced, "accept")
    by_name = {span.name: span for span in spans.get_finished_spans()}
    assert list(by_name) == ["queued", "building", "waiting", "verifying", "attempt"]
    root = by_name.pop("attempt")
    assert root.attributes["grader.submission"] == submission_id and root.attributes["grader.verdict.fold"] == "ACCEPTED"
    for span in by_name.values():
        assert span.parent.span_id == root.context.span_id and span.context.trace_id == root.context.trace_id
        assert root.start_time <= span.start_time <= span.end_time <= root.end_time


async def test_a_failure_of_ours_is_an_error_and_each_attempt_a_trace_of_its_own(tmp_path, traced, spans):
    """A wrong kernel is none: it was graded. No trace holds a source or a workload."""
    await graded(tmp_path, traced, "fault", "wrong")
    roots = [span for span in spans.get_finished_spans() if span.name == "attempt"]
    assert len({root.context.trace_id for root in roots}) == len(roots) == 4
    failed = [root for root in roots if root.status.status_code.name == "ERROR"]
    assert [root.attributes["grader.attempt"] for root in failed] == [1, 2, 3]
    assert {root.status.description for root in failed} == {"SANDBOX_BROKEN"}
    trace_text = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "grader.problem" in trace_text and "solve" not in trace_text and "secret33" not in trace_text


@pytest.mark.parametrize("watched", [True, False])
async def test_every_log_line_of_an_attempt_says_whose_it_is(tmp_path, traced, watched):
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        submission_ids = await graded(tmp_path, traced if watched else Observer(), "accept", "fault")
    assert {"attempt_began", "attempt_settled", "attempt_failed", "attempt_released"} <= {line["event"] for line in lines}
    for line in lines:
        assert line["submission"] in submission_ids and line["attempt"] in (1, 2, 3)
        assert ("trace_id" in line) is watched
    assert "solve" not in repr(lines)


@pytest.mark.slow
def test_a_server_without_tracing_and_web_port_imports_neither():
    heavy = ("opentelemetry", "prometheus_client", "aiohttp")
    code = f"import sys, grader.server.running; print([name for name in {heavy} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert process.stdout.strip() == "[]"
