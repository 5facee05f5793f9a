"""Where POSTs to URLs of others go, and where they never go."""

import asyncio
import contextlib
import ssl

import pytest
import trustme

from grader.webhooks import public_http
from grader.webhooks.public_http import PostFailed, UrlRefused, post, target, why_not

NOT_PUBLIC = (
    *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255"),
    *("224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    # A cloud's metadata service and the rest of its network, also as a mapped and a translated address; local NAT64; documentation.
    *("192.0.0.192", "192.0.0.1", "192.0.0.9", "192.0.0.255", "::ffff:192.0.0.192", "64:ff9b::c000:c0"),
    *("64:ff9b:1::808:808", "3fff::1", "3fff:fff:ffff::1"),
)
PUBLIC = ("8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808")


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public_are_refused(address):
    """This host, its networks, cloud metadata, and every other way to write them; with the switch on they are let through (the control)."""
    assert "not a public address" in why_not(target("https://a.example/"), address, allow_private=False)
    multicast = address in ("224.0.0.1", "ff02::1")
    assert (why_not(target("https://a.example/"), address, allow_private=True) is None) is not multicast


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_taken(address):
    """The honest case."""
    assert why_not(target("https://a.example/"), address, allow_private=False) is None


@pytest.mark.parametrize(
    ("address", "allow_private", "taken"),
    [("127.0.0.1", True, True), ("::1", True, True), ("127.0.0.1", False, False), ("10.0.0.1", True, False), ("8.8.8.8", True, False)],
)
def test_plain_http_goes_to_this_host_only_and_only_where_allowed(address, allow_private, taken):
    """What is not encrypted does not leave the host."""
    assert (why_not(target("http://a.example/"), address, allow_private=allow_private) is None) is taken


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://a.example/",
            "file:///etc/passwd",
            "a.example",
            "https://",
            "https:///x",
            "https://u:p@a.example/",
            "https://u@a.example/",
        ),
        *("https://a.example/#x", "https://a.example/ x", "https://a.example/\r\nX: y", "https://a.example:99999/", "https://[::1/"),
        *("https://ä.example/", "https://a.example/" + "x" * 2000),
    ],
)
def test_what_is_no_plain_https_url_is_refused(url):
    """Nothing can be smuggled into the request by its URL."""
    with pytest.raises(UrlRefused):
        target(url)


def test_a_url_is_taken_apart():
    """Port, path and query as they are sent."""
    to = target("https://a.example:8443/x%20y?z=1")
    assert (to.tls, to.host, to.port, to.path, to.host_header) == (True, "a.example", 8443, "/x%20y?z=1", "a.example:8443")
    assert target("https://[2606::1]").host_header == "[2606::1]" and target("https://a.example").path == "/"


@contextlib.asynccontextmanager
async def answering(reply, *, context=None):
    """A server of raw bytes; yields its port and what it read. reply None: it never answers."""
    read = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        read.append(head + await reader.read(4096) if b"Content-Length: 0" not in head and reply is not None else head)
        if reply is None:
            await reader.read()
        writer.write(reply or b"")
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], read


async def send(port, *, scheme="http", host="127.0.0.1", body=b"{}", **options):
    return await post(target(f"{scheme}://{host}:{port}/hook?a=b"), {"X-A": "b"}, body, **{"allow_private": True, **options})


async def test_a_post_is_sent_as_http_wants_it():
    """Request line, host, length, our headers, body."""
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (port, read):
        assert (await send(port)).status == 204
        head, _, body = read[0].partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /hook?a=b HTTP/1.1" and body == b"{}"
        assert {f"Host: 127.0.0.1:{port}", "Content-Length: 2", "Connection: close", "X-A: b"} <= set(lines)


async def test_a_redirect_is_an_answer_and_is_not_followed():
    """Else a public site could send us to a private one."""
    async with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n") as (inner, read),
        answering(f"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:{inner}/\r\n\r\n".encode()) as (port, _),
    ):
        assert (await send(port)).status == 307
        assert read == []


async def test_of_an_answer_little_is_read():
    """A body without end costs nothing."""
    async with answering(b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 10_000_000) as (port, _):
        answer = await send(port)
        assert answer.status == 500 and 0 < len(answer.body) <= public_http.ANSWER_BYTES


@pytest.mark.parametrize("reply", [b"", b"nonsense\r\n\r\n", b"HTTP/2 200\r\n", b"x" * 100_000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500])
async def test_what_does_not_speak_http_fails(reply):
    """It is a failure like another: nothing is believed to have arrived."""
    async with answering(reply) as (port, _):
        with pytest.raises(PostFailed):
            await send(port)


async def test_who_does_not_answer_is_left():
    """One limit for all of it."""
    async with answering(None) as (port, _):
        with pytest.raises(PostFailed, match=r"no answer in 0\.2 s"):
            await send(port, limit_s=0.2)


async def test_a_name_is_connected_to_at_the_address_that_was_looked_at():
    """A name that answers with another address the second time gains nothing: there is no second time."""
    asked = []

    async def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (port, read):
        assert (await send(port, host="site.example", resolve=rebinding)).status == 200
        assert asked == ["site.example"] and b"Host: site.example" in read[0]


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"]])
async def test_a_name_of_a_private_address_is_refused_before_anything_is_sent(addresses):
    """Also where another of its addresses is public. The control: with the switch on the request arrives."""

    async def resolve(host, port):
        return addresses

    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (port, read):
        with pytest.raises(UrlRefused, match="not a public address"):
            await send(port, scheme="https", host="site.example", resolve=resolve, allow_private=False)
        assert read == []
        if addresses == ["127.0.0.1"]:
            assert (await send(port, host="site.example", resolve=resolve)).status == 200


async def test_numbers_that_mean_this_host_are_resolved_and_refused():
    """0x7f.1 and 2130706433 are 127.0.0.1 to the system's resolver, so it is asked and its answer looked at."""
    for host in ("0x7f.1", "2130706433", "127.1", "localhost"):
        with pytest.raises((UrlRefused, PostFailed)) as raised:
            await post(target(f"https://{host}/"), {}, b"", limit_s=5)
        assert "not a public address" in str(raised.value) or "gaierror" in str(raised.value)


async def test_a_certificate_of_another_name_is_refused():
    """The name in the URL is what the certificate must be for, whatever address was connected to. The control: the right one is taken."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("site.example").configure_cert(server)
    authority.configure_trust(client)

    async def resolve(host, port):
        return ["127.0.0.1"]

    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", context=server) as (port, _):
        options = {"scheme": "https", "resolve": resolve, "context": client}
        assert (await send(port, host="site.example", **options)).status == 200
        with pytest.raises(PostFailed, match="certificate"):
            await send(port, host="other.example", **options)
        with pytest.raises(PostFailed, match="certificate"):
            await send(port, host="site.example", scheme="https", resolve=resolve)
