"""The comparison of two submissions: what `grader-cli diff` says of them, to those who may see both."""

import html
from dataclasses import replace
from functools import partial

import pytest
from aiohttp.test_utils import make_mocked_request

from grader.model import Scope, SourceFile
from grader.peers import PeerLimits
from grader_extensions.web.site import TooBusy
from grader_extensions.web.submission_pages import SubmissionPages
from grader_extensions.web.tests.signed_in import key_of, reader
from grader_extensions.web.tests.site import END, signed_site, timed

EVIL = "<script>x</script>\n</td>\u202e\n"


@pytest.fixture
def open_site(tmp_path):
    return partial(signed_site, tmp_path)


def source(content):
    return (SourceFile(path="kernel.cu", content=content),)


async def test_two_submissions_are_compared(open_site):
    """Times with intervals and words, and a diff of the sources; every text is text."""
    async with open_site(open_server=True) as (here, ann):
        made = [await here.enter("ann", 2.0, sources=source(one)) for one in ("one\ntwo\n", f"one\n{EVIL}")]
        answer, text = await ann.get(f"/compare?a={made[0]}&b={made[1]}")
        assert answer.status == 200 and all(f"/submissions/{one}" in text for one in made)
        assert "n64" in text and "can&#39;t tell" in text and "1x (" in text
        assert '<td class="code removed">-two</td>' in text and "<script" not in text and "+&lt;script&gt;" in text and "\\u202e" in text
        _, text = await ann.get(f"/compare?a={made[0]}&b={await here.enter('bob', 1.0, sources=source(chr(10).join(('one', 'two', ''))))}")
        assert "The sources are the same." in text


async def test_hidden_workloads_are_not_compared(open_site):
    """A page shows no times of them, so no ratio either. The control is the same workload, public."""
    async with open_site(open_server=True) as (here, ann):
        for hidden in (True, False):
            more = replace(timed("n77"), hidden=hidden)
            made = [await here.enter("ann", 2.0, competition_id="", measurements=(timed(), more)) for _ in range(2)]
            _, text = await ann.get(f"/compare?a={made[0]}&b={made[1]}")
            assert ("n77" not in text and text.count("By speedups") == 1 and text.count("1x (") == 2) is hidden


async def test_only_who_may_see_both_may_compare(open_site):
    """For everybody else there is no such page, as where there is no such submission; after the end of a competition everybody may."""
    async with open_site() as (here, ann):
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


async def test_two_of_one_problem_have_to_be_named(open_site):
    """Else a sentence says what to do."""
    async with open_site(open_server=True) as (here, ann):
        made = [await here.enter("ann", 2.0), await here.enter("ann", 2.0, problem_id="other")]
        for query, told in (
            ("", "two submissions"), (f"a={made[0]}", "two submissions"), (f"a={made[0]}&b={made[0]}", "two submissions"),
            (f"a={made[0]}&b={made[1]}", "different problems, sum and other"),
        ):  # fmt: skip
            answer, text = await ann.get(f"/compare?{query}")
            assert answer.status == 400 and told in html.unescape(text)
        assert (await ann.get(f"/compare?a={made[0]}&b={'x' * 5000}"))[0].status == 404


async def test_the_list_offers_two_to_compare(open_site):
    """Each as a and as b, with a name for those who can't see the column; not where there is one only."""
    async with open_site(open_server=True) as (here, ann):
        made = [await here.enter("ann", 2.0)]
        assert 'type="radio"' not in (await ann.get("/submissions"))[1]
        made.append(await here.enter("ann", 1.0))
        _, text = await ann.get("/submissions")
        for one in made:
            for side in ("a", "b"):
                assert f'<input type="radio" name="{side}" value="{one}" aria-label="{one[:8]} as {side}">' in text


async def test_comparisons_are_limited(open_site):
    """A diff takes a while: what is over the limit is refused at once. The control is the same request with room."""
    async with open_site(open_server=True) as (here, _):
        made = [await here.enter("ann", 2.0) for _ in range(2)]
        request = make_mocked_request("GET", f"/compare?a={made[0]}&b={made[1]}", headers={"Host": "localhost"})
        full, page = (SubmissionPages(here.web_site(), PeerLimits(total=total, per_address=1)) for total in (0, 1))
        with pytest.raises(TooBusy):
            await full.compare(request)
        assert (await page.compare(request)).status == 200 and full.count.total == page.count.total == 0
