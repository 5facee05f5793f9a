"""Users of an identity provider: the settings that name it, which of its users may sign in, and what they are called here.

A claim is a statement of the provider about a user, from an ID token whose signature was verified.
"""

from __future__ import annotations

import hashlib
import re
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.peers import loopback

CALLBACK = "/sign-in/provider/callback"  # where the provider sends browsers back to
ANYONE, EMAIL = "anyone", "email"
URL_CHARS = 500  # of an issuer
RULE_FORMS = f"@DOMAIN for verified e-mail addresses, CLAIM=VALUE, or {ANYONE}"
SUFFIX_DIGITS = range(6, 25)  # hexadecimal digits after a user's name: more where the shorter name is taken
_STEM_CHARS = 39  # with "-" and the longest suffix: 64, as many as a user name has
_NAME_CHARS = 40
_SECRET_BYTES = 4096
_STRANGERS = stat.S_IROTH | stat.S_IWOTH
_DOMAIN = re.compile(r"@[a-z0-9-]+(\.[a-z0-9-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRule:
    """Users who may sign in: those whose claim has this value; of an e-mail address, which has to be verified, its @DOMAIN."""

    claim: str
    value: str

    def holds(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the claim has the value, or a list that contains it."""
        if self.claim == EMAIL:  # many providers let users write an address that they do not have
            address = _verified_email(claims).lower()
            return address.endswith(self.value) if self.value.startswith("@") else address == self.value
        value = claims.get(self.claim)
        return self.value in value if isinstance(value, list) else value == self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProvider:
    """The provider that users may sign in with. rules: one of them is enough; None: all its users may. public_url: where browsers reach
    our pages, without a path."""

    name: str
    issuer: str
    client_id: str
    client_secret: str
    public_url: str
    rules: tuple[ClaimRule, ...] | None

    @property
    def redirect_uri(self) -> str:
        """Address that is registered with the provider. It is not made from a request's Host header, which anybody can choose."""
        return f"{self.public_url}{CALLBACK}"

    def __repr__(self) -> str:  # without the secret
        return f"IdentityProvider({self.issuer!r})"

    def allows(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the user with these claims may sign in."""
        return self.rules is None or any(rule.holds(claims) for rule in self.rules)


def claim_rules(texts: Iterable[str]) -> tuple[ClaimRule, ...] | None:
    """The rules in these texts; None where one of them lets all users in. ValueError."""
    rules = []
    for text in texts:
        claim, equals, value = text.partition("=")
        if text.startswith("@"):
            if _DOMAIN.fullmatch(text.lower()) is None:
                raise ValueError(f"{text!r} is not a domain; write it such as @example.org")
            rules.append(ClaimRule(claim=EMAIL, value=text.lower()))
        elif equals and claim and value and not value.startswith("@"):
            rules.append(ClaimRule(claim=claim, value=value.lower() if claim == EMAIL else value))
        elif text != ANYONE:
            raise ValueError(f"{text!r} is not a rule; write {RULE_FORMS}")
    return None if ANYONE in texts else tuple(rules)


def user_names(issuer: str, subject: str, claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what this user may be called here, the best name first. Each ends in a digest of issuer and subject: users choose the rest
    themselves at many providers, and must not be able to choose the name of a user who has a key, or will get one."""
    wanted = claims.get("preferred_username")
    text = wanted if isinstance(wanted, str) and wanted else _verified_email(claims)
    plain = unicodedata.normalize("NFKD", text.partition("@")[0]).encode("ascii", "ignore").decode().lower()
    stem = re.sub(r"[^a-z0-9._-]+", "-", plain)[:_STEM_CHARS].strip("-._") or "user"
    digest = hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()
    return tuple(f"{stem}-{digest[:digits]}" for digits in SUFFIX_DIGITS)


def safe_url(url: str) -> bool:
    """Return whether this URL keeps a secret: https, or http of this host, for trials. It names a host and nobody's password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        return False
    plain = re.fullmatch(rf"[!-~]{{1,{URL_CHARS}}}", url) is not None and not parts.fragment and "@" not in parts.netloc
    return plain and bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and loopback(f"{host}:0")))


def safe_endpoint(url: str, issuer: str) -> bool:
    """Return whether a provider may name this URL as its own. One that is asked over https names no plain address: it would have this
    server send codes and the client's secret to another program of this host."""
    return safe_url(url) and (urlsplit(url).scheme == "https" or urlsplit(issuer).scheme != "https")


def _verified_email(claims: Mapping[str, Any]) -> str:
    """The e-mail address, if the provider has verified it; else ""."""
    email = claims.get("email")
    return email if isinstance(email, str) and claims.get("email_verified") is True else ""


# OpenID Connect: missing, contradictory or unsafe settings stop the server at its start.


def identity_provider(settings: Settings) -> IdentityProvider | None:
    """The provider that users may sign in with; None where the settings name none. SettingsInvalid."""
    issuer = settings.oidc_issuer
    if issuer or settings.public_url:
        _check_url("public_url", settings.public_url, "https://grader.example.org")
        if urlsplit(settings.public_url).path not in ("", "/"):
            raise SettingsInvalid("public_url", f"{settings.public_url!r} has a path; pages are at the root of a host, so leave it out")
    if not issuer:
        for setting in ("oidc_client_id", "oidc_client_secret_file", "oidc_name", "oidc_allow"):
            if getattr(settings, setting):
                raise SettingsInvalid(setting, "is of no use without an identity provider; add --oidc-issuer URL, or leave it out")
        return None
    if settings.web is None:
        raise SettingsInvalid("oidc_issuer", "users sign in on pages, and this server has none; add --web PORT")
    if not settings.asks_keys:
        raise SettingsInvalid("oidc_issuer", "this server asks for no keys, so there is nothing to sign in to; add --auth keys")
    _check_url("oidc_issuer", issuer, "https://login.example.org/realms/lab")
    for setting, remedy in (
        ("oidc_client_id", "register this server with the provider, and pass the id that it gives"),
        ("oidc_client_secret_file", "write the client's secret to a file of mode 0600, and name it"),
        ("oidc_allow", f"say which users of the provider may sign in: {RULE_FORMS}"),
    ):
        if not getattr(settings, setting):
            raise SettingsInvalid(setting, f"is missing; {remedy}")
    assert settings.oidc_client_secret_file is not None
    try:
        rules = claim_rules(settings.oidc_allow)
    except ValueError as error:
        raise SettingsInvalid("oidc_allow", str(error)) from None
    name = settings.oidc_name or urlsplit(issuer).hostname or ""
    if len(settings.oidc_name) > _NAME_CHARS or not name.isprintable():
        raise SettingsInvalid("oidc_name", f"a name is one line of at most {_NAME_CHARS} characters; shorten it")
    return IdentityProvider(
        name=name,
        issuer=issuer,
        client_id=settings.oidc_client_id,
        client_secret=_secret(settings.oidc_client_secret_file),
        public_url=settings.public_url.rstrip("/"),
        rules=rules,
    )


def _check_url(setting: str, url: str, example: str) -> None:
    if not url:
        raise SettingsInvalid(setting, f"is missing; write such as {example}")
    if not safe_url(url) or urlsplit(url).query:
        text = f"{url!r} is not a URL to use here; write one with https:// and without '?' or '#', such as {example}"
        raise SettingsInvalid(setting, text)


def _secret(path: Path) -> str:
    """The client's secret: the one line of a file that strangers can't read or change."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise SettingsInvalid("oidc_client_secret_file", f"can't read {path}: {error.strerror}") from None
    if (mode := stat.S_IMODE(path.stat().st_mode)) & _STRANGERS:
        remedy = f"make a new secret at the provider, then chmod 600 {path}"
        raise SettingsInvalid("oidc_client_secret_file", f"every user of this host can read or change {path} (mode {mode:04o}); {remedy}")
    if not re.fullmatch(b"[ -~]+", secret) or len(secret) > _SECRET_BYTES:
        text = f"{path} does not hold one line of ASCII; write the client's secret there, and no more"
        raise SettingsInvalid("oidc_client_secret_file", text)
    return secret.decode("ascii")
