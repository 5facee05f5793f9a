"""Makes the pictures of docs/images: pages of a filled site, in Chromium.

    python -m tools.website.screenshots [--out docs/images]

Users, times and scores are made up. The pages are 1280 px wide and light; one is 390 px wide and dark. It needs Chromium on the path. The
exit code is 1 where a picture has more than 150 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from grader.observability import log
from tools.page import ROOT
from tools.website.filled_site import FilledSite, filled_site

PICTURE_LIMIT_BYTES = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A page of `filled_site` as it is drawn. narrow: on a phone, dark."""

    name: str
    page: str
    height_px: int
    narrow: bool = False


PICTURES = (
    Picture(name="home", page="home", height_px=520),
    Picture(name="problem", page="problem", height_px=900),
    Picture(name="board", page="board", height_px=760),
    Picture(name="report", page="report", height_px=1040),
    Picture(name="submit", page="submit", height_px=1000),
    Picture(name="board-narrow-dark", page="board", height_px=844, narrow=True),
)


def main() -> int:
    """Draw them; 1 where one is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    log.configure(level=logging.WARNING)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.stderr.write("there is no chromium on the path\n")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="grader-screenshots-") as place:
        sizes = asyncio.run(draw(Path(place), given.out, chromium))
    for path, size_bytes in sizes.items():
        sys.stdout.write(f"{path}: {size_bytes} bytes\n")
    return 1 if max(sizes.values()) > PICTURE_LIMIT_BYTES else 0


async def draw(place: Path, out: Path, chromium: str) -> dict[Path, int]:
    """The bytes of each picture, by its path."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with filled_site(place, entry_count=14, flags=()) as here, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            return {path: path.stat().st_size for path in [await _picture(browser, here, one, out) for one in PICTURES]}
        finally:
            await browser.close()


async def _picture(browser: Browser, here: FilledSite, picture: Picture, out: Path) -> Path:
    """One picture, of the page as the owner of a key sees it."""
    path = out / f"{picture.name}.png"
    context = await browser.new_context(
        viewport={"width": 390 if picture.narrow else 1280, "height": picture.height_px},
        color_scheme="dark" if picture.narrow else "light",
    )
    page = await context.new_page()
    await page.clock.set_fixed_time(here.clock.now)
    await page.goto(here.url("/sign-in"))
    await page.get_by_label("API key").fill(here.key)
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="Signed in as").wait_for()
    await page.goto(here.url(here.paths[picture.page]))
    await page.screenshot(path=path)
    await context.close()
    return path


if __name__ == "__main__":
    raise SystemExit(main())
