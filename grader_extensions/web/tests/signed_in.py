"""A reader of pages as a browser is one: cookies are kept, forms are read from pages and sent with what a browser adds."""

import html
import re
from contextlib import asynccontextmanager

import aiohttp

from grader.model import Scope

USUAL = (Scope.SUBMIT, Scope.READ)
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
_INPUT = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


class Reader:
    """Follows no redirect."""

    def __init__(self, base, session):
        self.base, self.session = base, session

    async def get(self, path, **headers):
        async with self.session.get(self.base + path, headers=headers, allow_redirects=False) as answer:
            return answer, await answer.text()

    async def post(self, path, fields=(), headers=SAME_SITE, data=None):
        """Send fields as a form does. data: a whole body in their place."""
        body = data if data is not None else dict(fields)
        async with self.session.post(self.base + path, data=body, headers=headers, allow_redirects=False) as answer:
            return answer, await answer.text()

    def cookies(self):
        """By name."""
        return {cookie.key: cookie.value for cookie in self.session.cookie_jar}

    async def hidden(self, path):
        """The hidden fields of a page's forms."""
        _, text = await self.get(path)
        return hidden(text)

    async def sign_in(self, key, after="", headers=SAME_SITE, **changes):
        """Through the form; what came back."""
        fields = {**await self.hidden("/sign-in"), "key": key, **changes}
        if after:
            fields["next"] = after
        return await self.post("/sign-in", fields, headers)

    async def sign_out(self):
        return await self.post("/sign-out", await self.hidden("/account"))


def hidden(text):
    return {name: html.unescape(value) for name, value in _INPUT.findall(text)}


@asynccontextmanager
async def reader(base):
    """A new browser. base: such as http://127.0.0.1:8000."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:  # unsafe: of an address, not of a name
        yield Reader(base, session)


async def key_of(ledger, user="ann", scopes=USUAL, **options):
    """A new key's text."""
    return (await ledger.keys.create(user, frozenset(scopes), **options))[1]
