"""Which ID tokens prove who somebody is. Each refused token is accepted once the one protection against it is taken away."""

import warnings
from datetime import UTC, datetime, timedelta

import pytest
from joserfc import jwk, jwt
from joserfc.errors import SecurityWarning
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from grader_extensions.web.provider_sign_in import ALGORITHMS, LEEWAY_S, IdTokenInvalid, SigningKeyUnknown, signing_keys, verified_claims
from tests.forged_tokens import FORGERIES, IN_HEADER, OTHER, modulus

NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEY = jwk.RSAKey.generate_key(2048, {"kid": "first"})
NOW_S = int(NOW.timestamp())
CLAIMS = {"iss": "https://login.example.org", "aud": "grader", "sub": "1", "nonce": "n", "iat": NOW_S, "exp": NOW_S + 300}
WANTED = {"issuer": "https://login.example.org", "client_id": "grader", "nonce": "n", "now": NOW}


def public(*keys):
    return signing_keys(jwk.KeySet(list(keys)).as_dict(private=False))


def signed(key=KEY, header=None, **changes):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(header or {"alg": "RS256", "kid": key.kid}, claims, key)


def test_a_good_token_gives_its_claims():
    for changes in ({}, {"aud": ["grader"]}, {"aud": ["grader", "other"], "azp": "grader"}):
        assert verified_claims(signed(**changes), public(KEY), **WANTED)["sub"] == "1"


# The algorithm and the key that make a forged token as good as any. Of the others there is none: joserfc takes no public key as a secret,
# and no key fits what was changed afterwards.
CONTROLS = {
    "unsigned": ("none", KEY),
    "by_public_modulus": ("HS256", modulus(KEY)),
    "by_another_key": ("RS256", jwk.RSAKey.import_key(OTHER.as_dict(), {"kid": "first"})),
    "by_a_key_that_comes_along": ("ES256", IN_HEADER),
}


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_token_is_refused(forge):
    """The control allows the algorithm, or trusts the key: then the same token is as good as any."""
    token = FORGERIES[forge](KEY, dict(CLAIMS))
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)
    if forge in CONTROLS:
        algorithm, key = CONTROLS[forge]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            assert verified_claims(token, jwk.KeySet([key]), **WANTED, algorithms=[algorithm])["sub"] == "1"


def test_only_signatures_with_public_keys_are_taken():
    """Neither none nor a shared secret; and a symmetric key in the provider's document is left out."""
    assert not [one for one in ALGORITHMS if one == "none" or one.startswith("HS")]
    assert not signing_keys({"keys": [modulus(KEY).as_dict(private=True), {"kty": "RSA"}, {"kty": "new"}, "x", None]}).keys
    assert not any(signing_keys(one).keys for one in ({}, {"keys": 5}, {"keys": {}}, {"keys": None}))
    assert [key.kid for key in public(KEY)] == ["first"]


@pytest.mark.parametrize(
    ("changes", "accepts"),
    [
        ({"iss": "https://evil.example"}, {"issuer": "https://evil.example"}),
        ({"iss": "https://login.example.org/"}, {"issuer": "https://login.example.org/"}),
        ({"aud": "other"}, {"client_id": "other"}),
        ({"aud": ["other"]}, {"client_id": "other"}),
        ({"aud": ["grader", "other"], "azp": "other"}, {"client_id": "other"}),
        ({"nonce": "m"}, {"nonce": "m"}),
        ({"exp": NOW_S - LEEWAY_S}, {"now": NOW - timedelta(seconds=1)}),
        ({"iat": NOW_S + LEEWAY_S + 1}, {"now": NOW + timedelta(seconds=1)}),
        ({"nbf": NOW_S + LEEWAY_S + 1}, {"now": NOW + timedelta(seconds=1)}),
    ],
)
def test_a_token_for_something_else_is_refused(changes, accepts):
    """The control wants what the token is for."""
    token = signed(**changes)
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)
    assert verified_claims(token, public(KEY), **{**WANTED, **accepts})["sub"] == "1"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["grader", "other"]}, {"aud": []}, {"aud": {}}, {"nonce": ["n"]}, {"nonce": ""}, {"sub": "x" * 256}, {"sub": 1},
        {"sub": "a\nb"}, {"sub": ""}, {"iss": ["https://login.example.org"]}, {"exp": "tomorrow"}, {"exp": True}, {"azp": "other"},
        *({name: None} for name in CLAIMS),
    ],
)  # fmt: skip
def test_a_token_with_a_claim_of_another_form_is_refused(changes):
    with pytest.raises(IdTokenInvalid):
        verified_claims(signed(**changes), public(KEY), **WANTED)


def test_a_token_needs_a_key_that_is_published():
    """By its id; without an id there may be one key only. The error says that the key may be new."""
    second = jwk.ECKey.generate_key("P-256", {"kid": "second"})
    token = signed(second, {"alg": "ES256", "kid": "second"})
    with pytest.raises(SigningKeyUnknown):
        verified_claims(token, public(KEY), **WANTED)
    assert verified_claims(token, public(KEY, second), **WANTED)
    nameless = signed(KEY, {"alg": "RS256"})
    assert verified_claims(nameless, public(KEY), **WANTED)
    with pytest.raises(SigningKeyUnknown):
        verified_claims(nameless, public(KEY, second), **WANTED)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "e30.e30.", "." * 1000, "x" * 500_000, "\ud800", "é.é.é", f"{'[' * 9000}"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)


def test_a_critical_header_that_is_not_known_is_refused():
    """And one that is not critical is of no concern."""
    header = {"alg": "RS256", "kid": "first", "new": 1}
    loose = JWSRegistry(strict_check_header=False)
    assert verified_claims(jwt.encode(header, dict(CLAIMS), KEY, registry=loose), public(KEY), **WANTED)
    critical = JWSRegistry({"new": HeaderParameter("of a newer standard", "int")}, strict_check_header=False)
    with pytest.raises(IdTokenInvalid):
        verified_claims(jwt.encode({**header, "crit": ["new"]}, dict(CLAIMS), KEY, registry=critical), public(KEY), **WANTED)
