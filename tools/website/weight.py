"""What a browser loads for a page: the page and all that it asks this site for, in bytes as they are sent."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tools.website.filled_site import FilledSite

_RESOURCE = re.compile(r'<(?:link rel="stylesheet" href|script src|img src)="(/[^"]*)"')
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


@asynccontextmanager
async def signed_in(here: FilledSite) -> AsyncIterator[aiohttp.ClientSession]:
    """A browser in which the owner of the site's key has signed in. What is compressed stays so."""
    cookies = aiohttp.CookieJar(unsafe=True)  # unsafe: of an address, not of a name
    async with aiohttp.ClientSession(cookie_jar=cookies, auto_decompress=False) as session:
        async with session.get(here.url("/sign-in")) as answer:
            fields = {name: html.unescape(value) for name, value in _HIDDEN.findall((await answer.read()).decode())}
        sent = {**fields, "key": here.key}
        async with session.post(here.url("/sign-in"), data=sent, headers={"Sec-Fetch-Site": "same-origin"}) as answer:
            answer.raise_for_status()
        yield session


async def page_weight(session: aiohttp.ClientSession, here: FilledSite, path: str) -> tuple[int, dict[str, int]]:
    """A page's status, and the bytes of the page and of its style sheet, script and pictures by their paths."""
    async with session.get(here.url(path), allow_redirects=False) as answer:
        body, status = await answer.read(), answer.status
    found = {path: len(body)}
    for one in dict.fromkeys(map(html.unescape, _RESOURCE.findall(body.decode()))):
        async with session.get(here.url(one)) as answer:
            answer.raise_for_status()
            found[one] = len(await answer.read())
    return status, found
