"""The comparison of two submissions: faster, slower, or can't tell, which sources differ, and to whom it is shown."""

import html
import random
from dataclasses import replace

import pytest
from aiohttp.test_utils import make_mocked_request

from grader.model import Scope, SourceFile
from grader.peers import PeerLimits
from grader.v1 import report_pb2, submission_pb2
from grader_extensions.web.site import TooBusy
from grader_extensions.web.submission_pages import SpeedChange, SubmissionPages, changed_files, workload_changes
from grader_extensions.web.tests.signed_in import key_of, reader
from grader_extensions.web.tests.site import END, timed

EVIL = "<script>x</script>\n</td>\u202e\n"


def source(content):
    return (SourceFile(path="kernel.cu", content=content),)


async def test_two_submissions_are_compared(open_signed_site):
    """Times with intervals and words, and the files that differ; every text is text."""
    async with open_signed_site(open_server=True) as (here, ann):
        files = (source("one"), (*source("two"), SourceFile(path=EVIL, content="")))
        ids = [await here.enter("ann", 2.0, sources=of) for of in files]
        answer, text = await ann.get(f"/compare?a={ids[0]}&b={ids[1]}")
        assert answer.status == 200 and all(f"/submissions/{submission_id}" in text for submission_id in ids)
        assert "n64" in text and "can&#39;t tell" in text and "1x (" in text
        assert "These differ: <code><bdi>&lt;script&gt;" in text and "<code><bdi>kernel.cu</bdi></code>." in text
        assert text.count("<script") == 1 and "\\u202e" in text and f'href="/submissions/{ids[0]}/sources"' in text
        _, text = await ann.get(f"/compare?a={ids[0]}&b={await here.enter('bob', 1.0, sources=source('one'))}")
        assert "The sources are the same." in text


async def test_hidden_workloads_are_not_compared(open_signed_site):
    """A page shows no times of them, so no ratio either. The control is the same workload, public."""
    async with open_signed_site(open_server=True) as (here, ann):
        for hidden in (True, False):
            second = replace(timed("n77"), hidden=hidden)
            ids = [await here.enter("ann", 2.0, competition_id="", measurements=(timed(), second)) for _ in range(2)]
            _, text = await ann.get(f"/compare?a={ids[0]}&b={ids[1]}")
            assert ("n77" not in text and text.count("By speedups") == 1 and text.count("1x (") == 2) is hidden


async def test_only_who_may_see_both_may_compare(open_signed_site):
    """For everybody else there is no such page, as where there is no such submission; after the end of a competition everybody may."""
    async with open_signed_site() as (here, ann):
        mine, theirs = [await here.enter("ann", 2.0), await here.enter("ann", 1.0)], await here.enter("bob", 1.5)
        await ann.sign_in(await key_of(here.ledger))
        statuses = {}
        async with reader(here.url()) as root, reader(here.url()) as anybody:
            await root.sign_in(await key_of(here.ledger, "root", tuple(Scope)))
            pairs = {"own": f"a={mine[0]}&b={mine[1]}", "other": f"a={mine[0]}&b={theirs}", "absent": f"a={mine[0]}&b={'0' * 16}"}
            for ended in (False, True):
                here.clock.now = END if ended else here.clock.now
                for name, browser in (("ann", ann), ("root", root), ("anybody", anybody)):
                    answers = [(await browser.get(f"/compare?{pair}"))[0].status for pair in pairs.values()]
                    statuses[name, ended] = answers
        assert statuses == {
            ("ann", False): [200, 404, 404], ("root", False): [200, 200, 404], ("anybody", False): [404, 404, 404],
            ("ann", True): [200, 200, 404], ("root", True): [200, 200, 404], ("anybody", True): [200, 200, 404],
        }  # fmt: skip


async def test_two_of_one_problem_have_to_be_named(open_signed_site):
    """Else a sentence says what to do."""
    async with open_signed_site(open_server=True) as (here, ann):
        ids = [await here.enter("ann", 2.0), await here.enter("ann", 2.0, problem_id="other")]
        for query, message in (
            ("", "two submissions"), (f"a={ids[0]}", "two submissions"), (f"a={ids[0]}&b={ids[0]}", "two submissions"),
            (f"a={ids[0]}&b={ids[1]}", "different problems, sum and other"),
        ):  # fmt: skip
            answer, text = await ann.get(f"/compare?{query}")
            assert answer.status == 400 and message in html.unescape(text)
        assert (await ann.get(f"/compare?a={ids[0]}&b={'x' * 5000}"))[0].status == 404


async def test_the_list_offers_two_to_compare(open_signed_site):
    """Each as a and as b, with a name for those who can't see the column; not where there is one only."""
    async with open_signed_site(open_server=True) as (here, ann):
        ids = [await here.enter("ann", 2.0)]
        assert 'type="radio"' not in (await ann.get("/submissions"))[1]
        ids.append(await here.enter("ann", 1.0))
        _, text = await ann.get("/submissions")
        for submission_id in ids:
            for side in ("a", "b"):
                assert f'<input type="radio" name="{side}" value="{submission_id}" aria-label="{submission_id[:8]} as {side}">' in text


async def test_comparisons_are_limited(open_signed_site):
    """A diff takes a while: what is over the limit is refused at once. The control is the same request with room."""
    async with open_signed_site(open_server=True) as (here, _):
        ids = [await here.enter("ann", 2.0) for _ in range(2)]
        request = make_mocked_request("GET", f"/compare?a={ids[0]}&b={ids[1]}", headers={"Host": "localhost"})
        full, page = (SubmissionPages(here.web_site(), PeerLimits(total=total, per_address=1)) for total in (0, 1))
        with pytest.raises(TooBusy):
            await full.compare(request)
        assert (await page.compare(request)).status == 200 and full.count.total == page.count.total == 0


def measured(certified_ns, *, workload_id="n64", speedup=None, spread=0.01, count=40, seed=1):
    """A measurement whose samples scatter by spread about certified_ns. speedup: over eager, known to 1 %."""
    draw = random.Random(seed)
    samples = [round(certified_ns * draw.lognormvariate(0, spread)) for _ in range(count)]
    measurement = report_pb2.Measurement(workload_id=workload_id, certified=report_pb2.Samples(sample_durations_ns=samples))
    if speedup:
        measurement.speedups.add(baseline="eager", ratio=speedup, ratio_low=speedup * 0.99, ratio_high=speedup * 1.01)
    return measurement


def submission(*measurements, name="a", device="H200", sources=(), clock=report_pb2.CLOCK_DEVICE_EVENTS):
    environment = report_pb2.Environment(device=device, device_kind="cuda", clock=clock)
    report = report_pb2.Report(verdict=report_pb2.VERDICT_ACCEPTED, measurements=measurements, environment=environment)
    files = [submission_pb2.SourceFile(path=path, content=content) for path, content in sources]
    return submission_pb2.Submission(name=f"submissions/{name}", problem="problems/p", report=report, sources=files)


def changed(first, second):
    [change] = workload_changes(first, second)
    return change


def test_a_faster_one_is_faster_and_the_other_way_round():
    """Twice as fast, by the times and by the speedups; the interval holds the truth."""
    first, second = submission(measured(2_000_000, speedup=1.0)), submission(measured(1_000_000, speedup=2.0, seed=2))
    forth, back = changed(first, second), changed(second, first)
    assert (forth.change, back.change) == (SpeedChange.FASTER, SpeedChange.SLOWER)
    assert forth.ratio.low < 2 < forth.ratio.high and back.ratio.low < 0.5 < back.ratio.high
    assert forth.against.value == pytest.approx(2) and forth.baseline == "eager"


def test_the_same_kernel_twice_is_rarely_called_different():
    """Of 200 pairs of one kernel, at most about one in twenty; most say that 1x is within the interval."""
    verdicts = [
        changed(
            submission(measured(1_000_000, spread=0.05, seed=seed)), submission(measured(1_000_000, spread=0.05, seed=seed + 1000))
        ).change
        for seed in range(200)
    ]
    assert verdicts.count(SpeedChange.UNKNOWN) >= 180


def test_a_device_that_changed_is_not_taken_for_the_kernel():
    """Every time of the second grading is 20 % longer, PyTorch's too: the times differ, the speedups do not."""
    first, second = submission(measured(1_000_000, speedup=2.0)), submission(measured(1_200_000, speedup=2.0, seed=2))
    change = changed(first, second)
    assert change.change is SpeedChange.UNKNOWN and change.ratio.high < 1 and "does not confirm" in change.reason
    unprotected = changed(submission(measured(1_000_000)), submission(measured(1_200_000, seed=2)))  # the control: no speedups to compare
    assert unprotected.change is SpeedChange.SLOWER


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (submission(measured(500_000, speedup=2.0), device="H100"), "different devices, H200 and H100"),
        (submission(measured(500_000, speedup=2.0), clock=report_pb2.CLOCK_HOST), "different clocks"),
        (submission(measured(500_000, speedup=2.0, count=3)), "too few samples"),
        (submission(measured(0, speedup=2.0)), "too few samples, or a time that was not resolved"),
        (submission(), "b has no certified time"),
    ],
)
def test_what_can_not_be_compared_is_not(second, reason):
    """The control: on one device with enough samples it is faster."""
    first = submission(measured(1_000_000, speedup=1.0))
    change = changed(first, second)
    assert change.change is SpeedChange.UNKNOWN and reason in change.reason
    assert changed(first, submission(measured(500_000, speedup=2.0))).change is SpeedChange.FASTER


def test_files_that_differ_are_named():
    """Changed, added and removed ones; the same file is not there."""
    first = submission(sources=[("k.cu", "a\nb\nc"), ("same.h", "x"), ("old.h", "y")])
    second = submission(sources=[("k.cu", "a\nB\nc"), ("same.h", "x"), ("new.h", "y")])
    assert changed_files(first, second) == ["k.cu", "new.h", "old.h"] and changed_files(first, first) == []
