"""A site that users of a small identity provider may sign in to, and the steps that a browser takes."""

from contextlib import asynccontextmanager

from grader.rules.identities import IdentityProvider, claim_rules
from grader_extensions.web.sign_in import BEGIN
from grader_extensions.web.tests.identity_provider import CLIENT_ID, CLIENT_SECRET, allowed_by, fake_provider
from grader_extensions.web.tests.signed_in import SAME_SITE, reader
from grader_extensions.web.tests.site import site

BACK = {"Sec-Fetch-Site": "cross-site"}
PUBLIC_URL = "http://127.0.0.1:1"


@asynccontextmanager
async def provider_site(place, rules=("@example.org",), public_url=PUBLIC_URL, **options):
    """The site, a browser, and the provider; each user of the provider that the rules allow may sign in."""
    async with fake_provider() as provider:
        settings = IdentityProvider(
            name="Example",
            issuer=provider.url,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            public_url=public_url,
            rules=claim_rules(rules),
        )
        async with site(place, provider=settings, **options) as here, reader(here.url()) as ann:
            provider.now = here.clock
            yield here, ann, provider


async def began(browser, after=""):
    """The URL at the provider that a browser is sent to."""
    answer, _ = await browser.get(f"{BEGIN}?next={after}" if after else BEGIN, **SAME_SITE)
    assert answer.status == 303, answer
    return answer.headers["Location"]


async def sign_in(browser, after=""):
    """All of it; what the page that the browser comes back to is."""
    return await browser.get(await allowed_by(browser.session, await began(browser, after)), **BACK)


async def user_of(browser):
    """Who has signed in; "" for nobody."""
    _, text = await browser.get("/")
    return text.partition("Signed in as <bdi>")[2].partition("<")[0]


def refused(answer, text, status=403):
    """Whether this is a refusal that sets no session."""
    sets = [one.partition("=")[0] for one in answer.headers.getall("Set-Cookie", []) if "Max-Age=0" not in one]
    return answer.status == status and "<h1>Not signed in</h1>" in text and sets == []
