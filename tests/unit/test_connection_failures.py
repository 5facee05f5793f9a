"""Messages of a client that cannot connect: real handshakes, so that a new gRPC with other words is noticed."""

import asyncio
import ssl
from datetime import UTC, datetime

import pytest
import trustme

from grader.api import channels
from grader.api.client import GraderClient
from grader.errors import ServerUnreachable

AUTHORITY, STRANGER = trustme.CA(), trustme.CA()
PAST = {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2021, 1, 1, tzinfo=UTC)}
FUTURE = {"not_before": datetime(2090, 1, 1, tzinfo=UTC), "not_after": datetime(2091, 1, 1, tzinfo=UTC)}
HERE = ("127.0.0.1", "localhost")


def context(certificate, alpn="h2"):
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(tls_context)
    tls_context.set_alpn_protocols([alpn])
    return tls_context


async def refused(serving_context, *, ca=AUTHORITY, greeting=b"", tls=True):
    """Return the message of a client that calls a listener of this kind."""

    async def handle(reader, writer):
        writer.write(greeting)
        if not greeting:
            await reader.read(1)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=serving_context)
    async with server, GraderClient(address(server), tls=tls, ca=ca.cert_pem.bytes(), deadline_s=60.0) as client:
        with pytest.raises(ServerUnreachable) as raised:
            await client.get_caller()
    return str(raised.value)


def address(server):
    return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "times", "ca", "expected"),
    [
        (HERE, PAST, AUTHORITY, "its certificate has expired; the server's operator has to renew it"),
        (HERE, FUTURE, AUTHORITY, "its certificate is not valid yet; check this host's clock"),
        (HERE, {}, STRANGER, "not trusted here; name the authority with `grader-cli login --ca FILE`"),
        (("grader.example", "b.example"), {}, AUTHORITY, "its certificate is not for this name; call it by one"),
        (("grader.example",), {}, STRANGER, "not trusted here"),
    ],
    ids=["expired", "not-yet", "unknown-authority", "other-name", "other-name-of-unknown-authority"],
)
async def test_the_cause_of_a_failed_handshake_comes_with_its_remedy(names, times, ca, expected):
    """In our words: gRPC's are not in it."""
    text = await refused(context(AUTHORITY.issue_cert(*names, **times)), ca=ca)
    assert expected in text and not any(word in text for word in ("SSL", "TSI", "ipv4", "OPENSSL", "handshake"))


@pytest.mark.slow
async def test_what_is_no_grader_server_is_told():
    """TLS without HTTP/2, and plain text where TLS was meant."""
    assert "not a grader-server" in await refused(context(AUTHORITY.issue_cert(*HERE), alpn="http/1.1"))
    assert "does not speak TLS" in await refused(None, greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.slow
async def test_a_watch_does_not_wait_for_a_certificate_to_become_right():
    """Whatever its patience, which is for restarts."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=context(AUTHORITY.issue_cert(*HERE, **PAST)))
    ca = AUTHORITY.cert_pem.bytes()
    async with server, GraderClient(address(server), tls=True, ca=ca, patience_s=float("inf")) as client:
        with pytest.raises(ServerUnreachable, match="its certificate has expired"):
            async for _ in client.watch("submissions/a"):
                pass


def test_a_connection_that_is_closed_means_another_thing_once_the_server_has_answered():
    """Then it speaks what the client speaks."""
    expected = [channels.explain("Socket closed", tls=tls, answered=answered) for tls, answered in ((False, False), (False, True))]
    assert "wants TLS" in expected[0] and "TLS" not in expected[1]
