"""How much a page and all that it loads weigh: less than 100 KB, with as much on it as in the middle of a competition."""

import aiohttp
import pytest

from tests.server.test_site_crawl import PAGE_LIMIT_BYTES
from tools.website import reports
from tools.website.filled_site import OWNER, filled_site
from tools.website.page_site import END
from tools.website.weight import page_weight, signed_in

pytestmark = pytest.mark.slow


async def test_every_page_with_all_that_it_loads_is_under_100_kb(tmp_path):
    """A board of 100 entries, reports of 4 workloads and of up to 24, a problem; while the competition runs, and after its end."""
    async with filled_site(tmp_path, entry_count=100) as here, signed_in(here) as session:
        for count in (12, 16, 24):
            many = reports.accepted(3.3, workloads=[f"n{number}" for number in range(count)], sample_count=400)
            here.paths[f"{count} workloads"] = f"/submissions/{await here.enter(OWNER, many, competition_id='')}"
        weights = {}
        for name, path in here.paths.items():
            status, found = await page_weight(session, here, path)
            assert status == {"not found": 404, "refused": 400}.get(name, 200), name
            assert "/static/style.css" in found
            assert ("/static/site.js" in found) is (name in ("home", "running", "sources")), name
            weights[name] = sum(found.values())
        here.clock.now = END
        async with aiohttp.ClientSession(auto_decompress=False) as anybody:
            for name in ("board", "report", "sources"):
                status, found = await page_weight(anybody, here, here.paths[name])
                assert status == 200, name
                weights[f"{name}, ended"] = sum(found.values())
        assert {name: weight for name, weight in weights.items() if weight >= PAGE_LIMIT_BYTES} == {}
        assert min(weights[name] for name in ("board", "report", "profile")) > 40_000  # the content is there
