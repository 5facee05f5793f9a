"""Screenshots of every page, on a desktop and on a phone, light and dark, and axe-core on each: `make screenshots`.

The site is the made-up one of `filled_site`. Ends with 1 where axe-core finds something.
"""

import argparse
import asyncio
import base64
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import async_playwright

from grader_extensions.web.tests.browser import findings_everywhere, reader, sign_in
from grader_extensions.web.tests.filled_site import filled_site

SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}
SIGNED_OUT = ("home", "sign in")
QUALITY, SCREENS = 40, 1.5  # of WebP; how many screens of a long page are in its picture


async def shoot(page, path, size):
    """Write what the page looks like now. Chromium itself makes the WebP."""
    devtools = await page.context.new_cdp_session(page)
    height = await page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "scale": 1, "width": size["width"], "height": min(max(height, 300), SCREENS * size["height"])}
    shot = await devtools.send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "captureBeyondViewport": True, "clip": clip}
    )
    await devtools.detach()
    path.write_bytes(base64.b64decode(shot["data"]))


async def shoot_everywhere(page, directory, name):
    """Write four pictures of the page, and return what axe-core finds on it."""
    for size_name, size in SIZES.items():
        for scheme in ("light", "dark"):
            await page.set_viewport_size(size)
            await page.emulate_media(color_scheme=scheme)
            await shoot(page, directory / f"{name.replace(' ', '-')}-{size_name}-{scheme}.webp", size)
    return [(name, *finding) for finding in await findings_everywhere(page, SIZES.values())]


async def main(directory, chromium):
    """Look at every page, first signed out and then as a user of the site."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        async with async_playwright() as playwright, filled_site(Path(place)) as here:
            browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
            async with reader(browser) as page:
                await page.clock.set_fixed_time(here.clock.now)
                findings = []
                for name in SIGNED_OUT:
                    await page.goto(here.url(here.paths[name]))
                    findings += await shoot_everywhere(page, directory, name)
                await sign_in(page, here.key)
                await page.get_by_role("link", name="Signed in as").wait_for()
                for name, path in here.paths.items():
                    if name not in SIGNED_OUT:
                        await page.goto(here.url(path))
                        findings += await shoot_everywhere(page, directory, name)
            await browser.close()
    for finding in findings:
        print(*finding)
    print(f"{len(here.paths)} pages, {4 * len(here.paths)} pictures in {directory}, {len(findings)} findings of axe-core")
    return 1 if findings else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go")
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        sys.exit("there is no chromium on the path; install it, such as with apt-get install chromium")
    sys.exit(asyncio.run(main(parser.parse_args().directory, executable)))
