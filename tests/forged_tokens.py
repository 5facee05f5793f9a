"""ID tokens that a provider has not signed, each made in a way that libraries have fallen for."""

import base64
import hmac
import json

from joserfc import jwk, jwt
from joserfc.jws import JWSRegistry

FOREIGN = jwk.RSAKey.generate_key(2048)
IN_HEADER = jwk.ECKey.generate_key("P-256")


def unsigned(key, claims):
    """With the algorithm "none"."""
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def modulus(key):
    """A secret that everybody has: a number of the provider's public key."""
    return jwk.OctKey.import_key({"kty": "oct", "k": key.as_dict(private=False)["n"], "kid": "first"})


def by_public_modulus(key, claims):
    """With HS256 and a part of the public key as the secret."""
    return jwt.encode({"alg": "HS256", "kid": "first"}, claims, modulus(key), registry=JWSRegistry(algorithms=["HS256"]))


def by_public_pem(key, claims):
    """With HS256 and the public key as the secret. joserfc takes no such secret, so this is done by hand."""
    text = f"{_encoded({'alg': 'HS256', 'kid': 'first'})}.{_encoded(claims)}"
    return f"{text}.{_text(hmac.digest(key.as_pem(private=False), text.encode(), 'sha256'))}"


def by_another_key(key, claims):
    """By somebody who gives the provider's key id."""
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, FOREIGN)


def by_a_key_that_comes_along(key, claims):
    """With the public key in the header."""
    header = {"alg": "ES256", "jwk": IN_HEADER.as_dict(private=False)}
    return jwt.encode(header, claims, IN_HEADER, registry=JWSRegistry(algorithms=["ES256"]))


def changed_afterwards(key, claims):
    """Signed, and then of another subject."""
    first, _, last = jwt.encode({"alg": "RS256", "kid": "first"}, claims, key).split(".")
    return ".".join([first, _encoded({**claims, "sub": "another"}), last])


FORGERIES = {
    f.__name__: f for f in (unsigned, by_public_modulus, by_public_pem, by_another_key, by_a_key_that_comes_along, changed_afterwards)
}


def _encoded(value):
    return _text(json.dumps(value).encode())


def _text(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
