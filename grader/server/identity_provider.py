"""Sign-in with OpenID Connect, from settings: what is missing, contradictory or unsafe stops the server at its start."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from urllib.parse import urlsplit

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.rules.identities import RULE_FORMS, IdentityProvider, claim_rules, safe_url

_NAME_CHARS = 40
_SECRET_BYTES = 4096
_STRANGERS = stat.S_IROTH | stat.S_IWOTH


def identity_provider(settings: Settings) -> IdentityProvider | None:
    """The provider that users may sign in with; None where the settings name none. SettingsInvalid."""
    issuer = settings.oidc_issuer
    if not issuer:
        _check_unused(settings)
        return None
    if settings.web is None:
        raise SettingsInvalid("oidc_issuer", "users sign in on pages, and this server has none; add --web PORT")
    if not settings.asks_keys:
        raise SettingsInvalid("oidc_issuer", "this server asks for no keys, so there is nothing to sign in to; add --auth keys")
    _check_url("oidc_issuer", issuer, "https://login.example.org/realms/lab")
    _check_url("public_url", settings.public_url, "https://grader.example.org")
    if urlsplit(settings.public_url).path not in ("", "/"):
        raise SettingsInvalid("public_url", f"{settings.public_url!r} has a path; pages are at the root of a host, so leave it out")
    if not settings.oidc_client_id:
        raise SettingsInvalid("oidc_client_id", "is missing; register this server with the provider, and pass the id that it gives")
    if settings.oidc_client_secret_file is None:
        raise SettingsInvalid("oidc_client_secret_file", "is missing; write the client's secret to a file of mode 0600, and name it")
    if not settings.oidc_allow:
        raise SettingsInvalid("oidc_allow", f"is missing; say which users of the provider may sign in: {RULE_FORMS}")
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


def _check_unused(settings: Settings) -> None:
    for setting in ("oidc_client_id", "oidc_client_secret_file", "oidc_name", "oidc_allow", "public_url"):
        if getattr(settings, setting):
            raise SettingsInvalid(setting, "is of no use without an identity provider; add --oidc-issuer URL, or leave it out")


def _check_url(setting: str, url: str, example: str) -> None:
    if not url:
        raise SettingsInvalid(setting, f"is missing; write such as {example}")
    if not safe_url(url) or urlsplit(url).query:
        raise SettingsInvalid(
            setting, f"{url!r} is not a URL to use here; write one with https:// and without '?' or '#', such as {example}"
        )


def _secret(path: Path) -> str:
    """The client's secret: the one line of a file that strangers can't read or change."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_bytes()[: _SECRET_BYTES + 1].decode("ascii").strip()
    except OSError as error:
        raise SettingsInvalid("oidc_client_secret_file", f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        text, mode = "", 0
    if mode & _STRANGERS:
        remedy = f"make a new secret at the provider, then chmod 600 {path}"
        raise SettingsInvalid("oidc_client_secret_file", f"every user of this host can read or change {path} (mode {mode:04o}); {remedy}")
    if not re.fullmatch("[ -~]+", text) or len(text) > _SECRET_BYTES:
        raise SettingsInvalid(
            "oidc_client_secret_file", f"{path} does not hold one line of ASCII; write the client's secret there, and no more"
        )
    return text
