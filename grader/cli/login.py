"""`grader-cli login`, `logout` and `whoami`: the keys that this user has, and who they are of."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from grader.api import credentials
from grader.api.channels import route
from grader.api.credentials import Credential, CredentialStore
from grader.api.resource_names import COMPETITIONS, resource_id
from grader.cli.exits import Exit, UsageError
from grader.cli.options import Json, OfServer
from grader.cli.output import plain, print_line, print_message, print_note, text_table
from grader.cli.session import dial
from grader.errors import SettingsInvalid
from grader.v1 import grader_service_pb2
from grader.views.sanitize import one_line

_PERIODS = {3600: "an hour", 86_400: "a day"}
_CA_LIMIT_BYTES = 1024 * 1024
_NOWHERE = "no key is stored; store one with: grader-cli login --server HOST:PORT"
_NO_KEY_CAME = (
    "no key came; paste it at the prompt, or pipe it: grader-cli login --server HOST:PORT < FILE; "
    "where the server asks for no keys, add --no-key"
)


async def login(
    named: Annotated[
        str | None, typer.Option("--server", metavar="HOST:PORT", envvar="GRADER_SERVER", help="The server; over TLS as for all commands.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate of the server's authority, in PEM. Default: the public authorities."),
    ] = None,
    insecure_plain_text: Annotated[
        bool,
        typer.Option(
            "--insecure-plain-text",
            help="Send the key in plain text beyond this host. Anybody who can read the network traffic can then use it.",
        ),
    ] = False,
    no_key: Annotated[bool, typer.Option("--no-key", help="Ask for no key: the server requires none.")] = False,
) -> Exit:
    """Store a key for a server, and make it the default server: commands use it unless --server or --local is given.

    The key is typed at a prompt that does not show it, or piped in. GRADER_KEY takes precedence over it.
    """
    if named is None:
        raise UsageError("--server is missing: write the HOST:PORT of the server that the key is for, or set GRADER_SERVER")
    store = CredentialStore(credentials.directory())
    store.all()  # before anybody types a key: can it be kept?
    address, tls = route(named, None if ca is None else True)  # anybody who names an authority means TLS
    credential = Credential(tls=tls, ca=None if ca is None else _read_ca(ca), plain_text=insecure_plain_text)
    if not no_key:
        async with dial(named, replace(credential, key="probe")):  # likewise: may it be sent?
            pass
        if not (key := _ask(address)):
            raise UsageError(_NO_KEY_CAME)
        credential = replace(credential, key=key)
    async with dial(named, credential) as client:
        caller = await client.get_caller()
    store.put(named, credential if caller.key_id else replace(credential, key=""), default=True)  # no key is kept that is of no use
    print_line(caller_line(address, caller))
    print_note(f"stored in {store.path}; this is the default server now: commands use it unless --server or --local is given")
    if os.environ.get("GRADER_SERVER", named) != named:
        print_note("GRADER_SERVER is set, and goes before the default server", "yellow")
    if os.environ.get("GRADER_KEY"):
        print_note("GRADER_KEY is set, and goes before the stored key", "yellow")
    return Exit.DONE


async def logout(named: OfServer = None) -> Exit:
    """Remove a server's key from where `login` stored it. Of the default server: there is no default afterwards."""
    store = CredentialStore(credentials.directory())
    server, default = _named(named, store), store.default()
    if not store.remove(server):
        raise UsageError(f"no key is stored for {credentials.bare(server)}; stored are: {', '.join(store.all()) or 'none'}")
    text = f"{credentials.bare(server)}: forgotten here; an administrator can revoke the key itself"
    if default and not store.default():
        text += "; no default server is left, so commands run their own"
    print_line(text)
    return Exit.DONE


async def whoami(named: OfServer = None, json: Json = False) -> Exit:
    """Show which server is used, your user there, and the scopes of your key."""
    server = named or _named(None, CredentialStore(credentials.directory()))
    async with dial(server, credentials.find(server)) as client:
        caller = await client.get_caller(with_quotas=True)
    quotas = quota_table(caller.quotas) if caller.quotas else plain("no quotas: you may submit as many as you like")
    print_message(caller, [plain(caller_line(client.address, caller)), quotas], json=json)
    return Exit.DONE


def quota_table(quotas: Sequence[grader_service_pb2.QuotaUse]) -> Table:
    """A row for each quota. The last column says when the oldest submission that counts is counted no longer."""
    rows = [
        (
            resource_id(COMPETITIONS, quota.competition) or "the server",
            _PERIODS.get(quota.window.seconds, f"{quota.window.seconds} s"),
            str(max(quota.limit - quota.used_count, 0)),
            str(quota.limit),
            f"{quota.next_time.ToDatetime(UTC):%Y-%m-%d %H:%M:%S}" if quota.HasField("next_time") else "-",
        )
        for quota in quotas
    ]
    return text_table(("quota of", "period", "left", "of", "next at (UTC)"), rows, right=("left", "of"))


def _ask(address: str) -> str:
    """From a prompt that shows nothing, or from what is piped in; never from the command line, which others can see."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Key for {address} (not shown): ").strip()
    return sys.stdin.readline(4096).strip()


def _read_ca(path: Path) -> str:
    try:
        text = path.read_bytes()[:_CA_LIMIT_BYTES].decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid("--ca", f"can't read {path}: {error}; name the authority's certificate, in PEM") from None
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY" in text:
        raise SettingsInvalid("--ca", f"{path} is not a certificate in PEM; name that of the authority, without any private key")
    return text


def _named(server: str | None, store: CredentialStore) -> str:
    """The server that is meant where none is named: the default, else the only one there is a key for."""
    if server is not None:
        return server
    if default := store.default():
        return default
    servers = list(store.all())
    if len(servers) != 1:
        raise UsageError(f"name one with --server: {', '.join(servers)}" if servers else _NOWHERE)
    return servers[0]


def caller_line(address: str, caller: grader_service_pb2.Caller) -> str:
    """A caller in words: the user, the scopes of the key, and when it ends."""
    if not caller.key_id:
        return f"{address}: asks for no keys; everything is allowed"
    ends = f"{caller.expire_time.ToDatetime(UTC):%Y-%m-%d %H:%M} UTC" if caller.HasField("expire_time") else "never"
    scopes = ", ".join(one_line(scope) for scope in caller.scopes)
    return f"{address}: {one_line(caller.user)} (scopes: {scopes}; key {one_line(caller.key_id)} ends: {ends})"
