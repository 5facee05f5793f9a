"""Who users of an identity provider are here: their names, who may sign in, their API keys, and how an administrator ends it."""

from datetime import UTC, datetime
from functools import partial

import pytest

from grader.api.client import GraderClient
from grader.model import Scope
from grader.server.running import serving
from grader_extensions.web.sign_in import API_KEY_LASTS
from grader_extensions.web.tests.identity_provider import CLIENT_ID, CLIENT_SECRET, fake_provider
from grader_extensions.web.tests.provider_site import BACK, PUBLIC_URL, provider_site, refused, sign_in, user_of
from grader_extensions.web.tests.signed_in import SAME_SITE, hidden, key_of, reader
from tests import fakes


def key_shown(text):
    """The API key on a page, which is shown once."""
    return text.partition('<pre tabindex="0">')[2].partition("<")[0]


@pytest.fixture
def open_site(tmp_path):
    return partial(provider_site, tmp_path)


async def test_a_user_is_known_by_issuer_and_subject_only(open_site):
    """Another name and address at the provider change nothing; the same address of another subject is another user."""
    async with open_site(rules=("anyone",)) as (here, ann, provider):
        await sign_in(ann)
        first = await user_of(ann)
        provider.claims |= {"email": "new@example.org", "preferred_username": "root"}
        await sign_in(ann)
        assert await user_of(ann) == first
        provider.claims = {**provider.claims, "email": "ann@example.org", "preferred_username": None, "sub": "another"}
        await sign_in(ann)
        second = await user_of(ann)
        assert second.startswith("ann-") and second != first
        provider.claims |= {"sub": "third", "email_verified": False}
        await sign_in(ann)
        assert (await user_of(ann)).startswith("user-")
        assert len(await here.ledger.keys.all()) == 3


async def test_revoking_the_key_of_a_user_s_sessions_ends_everything(open_site):
    """The session, the API key that was made in it, and signing in again; another user goes on."""
    async with open_site(rules=("anyone",)) as (here, ann, provider), reader(here.url()) as bob:
        await sign_in(ann)
        user = await user_of(ann)
        _, text = await ann.post("/account/key", await ann.hidden("/account"))
        api_key = key_shown(text)
        assert (await here.gate.open_with(api_key)).user == user
        provider.claims |= {"sub": "bob", "email": "bob@example.org"}
        await sign_in(bob)
        (session_key,) = [one for one in await here.ledger.keys.all() if one.user == user and one.note == "sign-in with Example"]
        await here.ledger.keys.revoke(session_key.key_id)
        here.gate._read_s = float("-inf")  # two seconds later
        assert await user_of(ann) == "" and await user_of(bob) != ""
        assert not [one for one in await here.ledger.keys.all() if one.user == user and one.valid(here.clock.now)]
        provider.claims |= {"sub": "248289761001"}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and f"An administrator has ended the access of {user}" in text


async def test_a_user_makes_one_api_key_and_replaces_it(open_site):
    """Shown once, for thirty days, with the scopes of the session; the one before is revoked."""
    async with open_site() as (here, ann, _provider):
        await sign_in(ann)
        user, made = await user_of(ann), []
        for _ in range(2):
            answer, text = await ann.post("/account/key", await ann.hidden("/account"))
            assert answer.status == 200 and answer.headers["Cache-Control"] == "no-store" and "shown this once" in text
            made.append(key_shown(text))
        _, text = await ann.get("/account")
        assert made[1].split("_")[1] in text and not any(one in text for one in made) and "Replace the API key" in text
        here.gate._read_s = float("-inf")
        caller = await here.gate.open_with(made[1])
        assert (caller.user, caller.scopes) == (user, {Scope.SUBMIT, Scope.READ}) and caller.expire_time == here.clock.now + API_KEY_LASTS
        (first,) = [one for one in await here.ledger.keys.all() if one.key_id == made[0].split("_")[1]]
        assert first.revoke_time is not None


async def test_a_key_makes_no_other_key(open_site):
    """Nor does another site's form, one without the page's token, or nobody. The control is above."""
    async with open_site() as (here, ann, _provider), reader(here.url()) as bob:
        await bob.sign_in(await key_of(here.ledger, "bob"))
        page = (await bob.get("/account"))[1]
        assert "Make an API key" not in page and (await bob.post("/account/key", hidden(page)))[0].status == 404
        await sign_in(ann)
        fields = await ann.hidden("/account")
        for sent, headers in ((fields, BACK), ({"token": "x"}, SAME_SITE), (fields, {})):
            assert (await ann.post("/account/key", sent, headers))[0].status == 403
        async with reader(here.url()) as nobody:
            assert (await nobody.post("/account/key", fields))[0].headers["Location"].startswith("/sign-in")
        assert len(await here.ledger.keys.all()) == 2


async def test_a_server_with_these_options_takes_what_the_user_submits(settings, kernel, tmp_path):
    """All the way: options, sign-in, an API key made on the page, and the API, where the user is the same one."""
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    secret.chmod(0o600)
    async with fake_provider(lambda: datetime.now(UTC)) as provider:
        given = {
            "web": "127.0.0.1:0", "auth": "keys", "public_url": PUBLIC_URL, "oidc_issuer": provider.url, "oidc_client_id": CLIENT_ID,
            "oidc_client_secret_file": secret, "oidc_name": "Example", "oidc_allow": ("@example.org",),
        }  # fmt: skip
        async with serving(settings.model_copy(update=given), fakes.wiring()) as running, reader(f"http://{running.web_address}") as ann:
            await sign_in(ann)
            _, text = await ann.post("/account/key", await ann.hidden("/account"))
            async with GraderClient(running.address, key=key_shown(text)) as client:
                made = await client.submit(kernel("accept"))
                assert (await client.get_submission(made.name)).user == await user_of(ann) != ""
            assert made.name.rpartition("/")[2] in (await ann.get("/submissions"))[1]
