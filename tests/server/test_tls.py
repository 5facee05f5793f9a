"""Beyond this host: TLS and keys, or no server; and no key in plain text."""

import asyncio
import os
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import structlog
import trustme

from grader import errors
from grader.api.client import GraderClient
from grader.config import Settings, loopback
from grader.ledger import Ledger
from grader.model import Scope
from grader.observability import log
from grader.server.auth import server_credentials
from grader.server.running import serving
from tests import fakes
from tests.waiting import until

EVERYWHERE = "0.0.0.0:0"
HERE = "127.0.0.1:0"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def files(place, authority):
    """The settings that name a certificate of 127.0.0.1 and its key."""
    return write(place, authority.issue_cert("127.0.0.1", "localhost"))


def write(place, issued, name="server"):
    certificate, key = place / f"{name}.pem", place / f"{name}.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.touch(0o600)
    key.write_bytes(issued.private_key_pem.bytes())
    return {"tls_certificate": certificate, "tls_key": key}


async def make_key(settings, scopes=(Scope.READ,), **fields):
    async with Ledger.open(settings.ledger_path) as ledger:
        return (await ledger.keys.create("alice", frozenset(scopes), **fields))[1]


async def start(settings):
    async with serving(settings, fakes.wiring()) as running:
        return running.address


async def test_a_server_that_others_can_reach_does_not_start_without_tls(settings):
    """And says what to do."""
    await make_key(settings)
    with pytest.raises(errors.SettingsInvalid, match="--tls-certificate FILE --tls-key FILE"):
        await start(settings.model_copy(update={"listen": EVERYWHERE}))


@pytest.mark.parametrize("lasting_s", [None, -1.0], ids=["no key", "an expired key"])
@pytest.mark.parametrize("proxied", [False, True])
async def test_nor_without_a_valid_key(settings, files, lasting_s, proxied):
    """The error has the command that makes one; something in front of it that does TLS changes nothing."""
    if lasting_s is not None:
        await make_key(settings, expire_time=datetime.now(UTC) + timedelta(seconds=lasting_s))
    changes = {"insecure_no_tls": True} if proxied else files
    with pytest.raises(errors.SettingsInvalid, match="grader-server admin keys create"):
        await start(settings.model_copy(update={"listen": EVERYWHERE, **changes}))


async def test_nor_with_auth_none(settings, files):
    """Settings that only make sense on one's own host are refused beyond it."""
    await make_key(settings)
    with pytest.raises(errors.SettingsInvalid, match="keys are needed"):
        await start(settings.model_copy(update={"listen": EVERYWHERE, "auth": "none", **files}))


@pytest.mark.parametrize("proxied", [False, True])
async def test_with_both_it_starts_and_asks_for_keys(settings, files, authority, proxied):
    """The control: with TLS, or behind what does TLS, and a key."""
    key = await make_key(settings)
    changes = {"insecure_no_tls": True} if proxied else files
    async with serving(settings.model_copy(update={"listen": EVERYWHERE, **changes}), fakes.wiring()) as running:
        address = running.address.replace("0.0.0.0", "127.0.0.1")
        for sent_key, allowed in ((key, True), ("", False)):
            async with GraderClient(address, key=sent_key, tls=not proxied, ca=authority.cert_pem.bytes()) as client:
                if allowed:
                    assert (await client.get_caller()).user == "alice"
                else:
                    with pytest.raises(errors.Unauthenticated):
                        await client.get_caller()


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.1:1", True), ("127.8.8.8:1", True), ("[::1]:1", True), ("localhost:1", True), ("unix:/x", True),
        ("0.0.0.0:1", False), ("[::]:1", False), ("192.0.2.1:1", False), (":1", False), ("127.evil.example:1", False),
        ("127.0.0.1.example:1", False), ("localhost.example:1", False), ("unix-abstract:x", False),
    ],
)  # fmt: skip
def test_what_only_this_host_can_reach(address, here):
    """A name that only looks like it is not."""
    assert loopback(address) is here and Settings(listen=address).asks_keys is not here


def bad_files(place, authority):
    good = authority.issue_cert("127.0.0.1")
    past = authority.issue_cert("127.0.0.1", not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=datetime(2021, 1, 1, tzinfo=UTC))
    future = authority.issue_cert("127.0.0.1", not_before=datetime(2100, 1, 1, tzinfo=UTC), not_after=datetime(2101, 1, 1, tzinfo=UTC))
    files, other_files = write(place, good), write(place, authority.issue_cert("127.0.0.1"), "other")
    (place / "text").write_text("no certificate")
    return {
        "not there": ({**files, "tls_certificate": place / "none"}, "can't read .*none"),
        "key not there": ({**files, "tls_key": place / "none"}, "can't read .*none"),
        "a directory": ({**files, "tls_key": place}, "can't read"),
        "no certificate": ({**files, "tls_certificate": place / "text"}, "not a certificate and its key"),
        "another's key": ({**files, "tls_key": other_files["tls_key"]}, "not a certificate and its key"),
        "expired": (write(place, past, "past"), "expired"),
        "not yet": (write(place, future, "future"), "not yet valid"),
        "no key": ({**files, "tls_key": None}, "name both"),
        "no cert": ({**files, "tls_certificate": None}, "name both"),
    }


def test_a_certificate_that_would_not_work_is_told_at_the_start(settings, place, authority):
    """Not by the first caller who can't get in."""
    for case, (changes, message) in bad_files(place, authority).items():
        with pytest.raises(errors.SettingsInvalid, match=message):
            pytest.fail(f"{case}: {server_credentials(settings.model_copy(update=changes))}")
    assert server_credentials(settings.model_copy(update=write(place, authority.issue_cert("127.0.0.1")))) is not None


def test_a_key_with_a_password_does_not_ask_the_terminal(settings, place, authority, files):
    """A server has nobody who could type it."""
    encrypted = files["tls_key"].read_bytes().replace(b"EC PRIVATE KEY-----\n", b"EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", 1)
    files["tls_key"].write_bytes(
        encrypted.replace(b"ENCRYPTED\n", b"ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n\n", 1)
    )
    with pytest.raises(errors.SettingsInvalid, match="password"):
        server_credentials(settings.model_copy(update=files))


@pytest.mark.parametrize(("event", "bad", "good"), [("tls_key_is_open_to_others", 0o640, 0o600), ("tls_certificate_ends_soon", 3, 60)])
def test_a_key_that_others_can_read_and_a_certificate_that_ends_soon_are_warned_about(settings, place, authority, event, bad, good):
    """Served all the same: the mode may be right where a group is meant."""
    log.configure("json", level=30)
    for value, warned in ((bad, True), (good, False)):
        mode, days = (value, 60) if event.startswith("tls_key") else (0o600, value)
        files = write(place, authority.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=days)))
        os.chmod(files["tls_key"], mode)
        with structlog.testing.capture_logs() as logged:
            server_credentials(settings.model_copy(update=files))
        assert [entry["event"] for entry in logged] == [event] * warned


async def served(address, authority):
    """The serial number of the certificate that a new connection gets."""
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    async with asyncio.timeout(300):
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        serial = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return serial


def events(logged, name):
    return [event for event in logged if event["event"] == name]


async def test_a_renewed_certificate_is_served_without_a_restart(settings, place, files, authority):
    """To whoever connects from then on; a client that is connected goes on, and nothing is read again while nothing changes."""
    log.configure("json", level=20)
    there = settings.model_copy(update={"listen": HERE, **files})
    with structlog.testing.capture_logs() as logged:
        async with serving(there, fakes.wiring()) as running:
            async with GraderClient(f"https://{running.address}", ca=authority.cert_pem.bytes()) as before:
                await before.get_caller()
                old = await served(running.address, authority)
                assert await served(running.address, authority) == old  # the control
                write(place, authority.issue_cert("127.0.0.1"))
                renewed_certificate = await served(running.address, authority)
                assert renewed_certificate != old and await served(running.address, authority) == renewed_certificate
                await before.get_caller()
            async with GraderClient(f"https://{running.address}", ca=authority.cert_pem.bytes()) as after:
                await after.get_caller()
            renewed = place / "renewed.pem"  # as a link that is moved, of another directory
            third = write(place, authority.issue_cert("127.0.0.1"), "other")
            renewed.symlink_to(third["tls_certificate"])
            os.replace(third["tls_key"], files["tls_key"])
            os.replace(renewed, files["tls_certificate"])
            assert await served(running.address, authority) not in (old, renewed_certificate)
    assert len(events(logged, "tls_certificate_renewed")) == 2 and not events(logged, "tls_certificate_not_renewed")


@pytest.mark.parametrize("case", ["text", "none", "another's", "past"])
async def test_a_broken_new_certificate_leaves_the_old_one_and_is_logged_once(settings, place, files, authority, case):
    """Then the good one comes, and is taken. What is logged quotes nothing of the key."""
    log.configure("json", level=20)
    there = settings.model_copy(update={"listen": HERE, **files})
    with structlog.testing.capture_logs() as logged:
        async with serving(there, fakes.wiring()) as running:
            old = await served(running.address, authority)
            match case:
                case "text":
                    files["tls_certificate"].write_text("no certificate")
                case "none":
                    files["tls_key"].unlink()
                case "another's":
                    files["tls_key"].write_bytes(authority.issue_cert("127.0.0.1").private_key_pem.bytes())
                case _:
                    times = {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2021, 1, 1, tzinfo=UTC)}
                    write(place, authority.issue_cert("127.0.0.1", **times))
            assert [await served(running.address, authority) for _ in range(3)] == [old] * 3
            (refused,) = events(logged, "tls_certificate_not_renewed")
            assert refused["log_level"] == "error" and refused["problem"] and "PRIVATE" not in str(logged)
            write(place, authority.issue_cert("127.0.0.1"))
            assert await served(running.address, authority) != old
    assert len(events(logged, "tls_certificate_not_renewed")) == len(events(logged, "tls_certificate_renewed")) == 1


class Listener:
    """Keeps what a client says first."""

    def __init__(self):
        self.heard = b""

    async def __call__(self, reader, writer):
        writer.write(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # an HTTP/2 server's empty settings
        try:
            while data := await reader.read(65536):
                self.heard += data
        finally:
            writer.close()


async def test_a_key_does_not_leave_this_host_in_plain_text():
    """The call is not even begun; with the explicit flag, or to this host, it is."""
    for address in ("192.0.2.1:1", "http://192.0.2.1:1", "http://grader.example:50551"):
        with pytest.raises(errors.SettingsInvalid, match="plain text"):
            GraderClient(address, key="grader_0_0", tls=False)
        GraderClient(address, key="grader_0_0", tls=False, plain_text_key=True)
        GraderClient(address, tls=False)
    for address in ("127.0.0.1:1", "unix:/x", "http://localhost:1"):
        GraderClient(address, key="grader_0_0")


@pytest.mark.parametrize("key", ["grader_a b", "grader_\n", "grader_é", "a\0"])
def test_what_is_no_key_is_refused_without_being_quoted(key):
    """The text may be a key with a slip in it."""
    with pytest.raises(errors.SettingsInvalid) as refused:
        GraderClient("127.0.0.1:1", key=key)
    assert key not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
async def test_over_tls_a_listener_hears_no_key(tls):
    """The control: in plain text it does."""
    listener = Listener()
    server = await asyncio.start_server(listener, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with GraderClient(f"127.0.0.1:{port}", key="grader_planted", tls=tls, deadline_s=4.0 if tls else 60.0) as client:
            calling = asyncio.create_task(client.get_caller())
            await until(lambda: calling.done() if tls else b"grader_planted" in listener.heard)
            calling.cancel()
            await asyncio.wait([calling])
    assert listener.heard and (b"grader_planted" in listener.heard) is not tls
