"""ID tokens of OpenID Connect: who signed one, for whom, until when.  Pure.  Signatures and claims are checked by joserfc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from joserfc import jwk, jwt
from joserfc.errors import BadSignatureError, ClaimError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jws import JWSRegistry

# Public-key signatures only. With "none", or with HS256 and the public key as its secret, anybody could sign.
ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA", "Ed25519")
LEEWAY_S = 60  # between the provider's clock and ours
SUBJECT_CHARS = 255
_KEY_TYPES = ("RSA", "EC", "OKP")  # no "oct": a symmetric key in a public document is nobody's


class IdTokenInvalid(Exception):
    """The token proves nothing. The text says why, for a reader and for the log."""


class SigningKeyUnknown(IdTokenInvalid):
    """The key that signed the token is not among the provider's, or not the one of its id. It may be new."""


def signing_keys(document: Mapping[str, Any]) -> jwk.KeySet:
    """The public keys of a provider; those that are of no use here are left out."""
    found, published = [], document.get("keys")
    for one in published if isinstance(published, list) else ():
        if isinstance(one, dict) and one.get("kty") in _KEY_TYPES and one.get("use", "sig") == "sig":
            try:
                found.append(jwk.import_key(one))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return jwk.KeySet(found)


def verified_claims(
    token: str, keys: jwk.KeySet, *, issuer: str, client_id: str, nonce: str, now: datetime, algorithms: Sequence[str] = ALGORITHMS
) -> dict[str, Any]:
    """The claims of a token that this issuer made for this client and this nonce; IdTokenInvalid. algorithms: others only in tests."""
    try:
        # A header that is not known is of no concern, unless the token says that it is critical.
        registry = JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
        claims = jwt.decode(token, keys, registry=registry).claims
    except InvalidKeyIdError:
        raise SigningKeyUnknown("it is signed with a key that the provider does not publish") from None
    except BadSignatureError:  # a provider may change its key and not the id, or give no id
        raise SigningKeyUnknown("its signature is not of the provider's key") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise IdTokenInvalid(f"its signature can't be verified ({type(error).__name__})") from None
    _check(claims, issuer, client_id, nonce, now)
    return claims


def _check(claims: dict[str, Any], issuer: str, client_id: str, nonce: str, now: datetime) -> None:
    registry = jwt.JWTClaimsRegistry(
        now=int(now.timestamp()),
        leeway=LEEWAY_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        registry.validate(claims)
    except ExpiredTokenError:
        raise IdTokenInvalid("it has expired; the clocks of the two servers may differ") from None
    except ClaimError as error:
        raise IdTokenInvalid(f"its claim {error.claim!r} is missing or wrong") from None
    # OpenID Connect Core, 3.1.3.7: a token for several clients says which of them asked for it.
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else client_id) != client_id:
        raise IdTokenInvalid("its claim 'azp' is missing or wrong")
    if claims["nonce"] != nonce:  # the registry takes a list with the nonce in it, too
        raise IdTokenInvalid("its claim 'nonce' is missing or wrong")
    if not 0 < len(claims["sub"]) <= SUBJECT_CHARS or not claims["sub"].isprintable():
        raise IdTokenInvalid("its claim 'sub' is missing or wrong")
