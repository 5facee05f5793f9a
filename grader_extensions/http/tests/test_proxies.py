"""The files of deploy/ for proxies work as they are, but for names, ports and the certificate: each proxy runs in front of a server."""

import asyncio
import os
import shutil
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import grpc
import pytest
import trustme
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from grader.api.client import GraderClient
from grader_extensions.http.tests.served import RULES, USER, Served, requests_of
from grader_extensions.web.tests.signed_in import Reader
from tests.ports import free_port
from tests.requirements import absent
from tests.waiting import until

DEPLOY = Path(__file__).parents[3] / "deploy"
PROGRAMS = {"caddy": ("Caddyfile", ("run", "--adapter", "caddyfile", "--config")), "nginx": ("nginx.conf", ("-c",))}
# A proxy that is no service of this host: what the host's own configuration says around our file.
AROUND = {
    "caddy": "{\n\tadmin off\n\tauto_https disable_redirects\n}\n%s",
    "nginx": "daemon off;\nuser root;\npid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n%s}\n",
}
TRUSTED = ("127.0.0.1",)
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", PROGRAMS)]


@dataclass
class Proxy:
    """A proxy in front of a server. authority: of its certificate."""

    here: Served
    port: int
    authority: Path

    @property
    def base(self):
        return f"https://localhost:{self.port}"

    def watch(self, name):
        return f"{self.base}/v1/{name}:watch"

    @asynccontextmanager
    async def session(self, host="127.0.0.1"):
        """Connections from this address of this host."""
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self.authority), local_addr=(host, 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            yield session

    def curl(self, path, *options):
        return self.here.curl("--cacert", self.authority, *self.here.bearer, *options, f"{self.base}{path}")


@asynccontextmanager
async def proxied(serve, place, name, **options):
    """Serve, with the proxy before both ports."""
    if (program := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")) is None:
        absent(name, f"{name} is not installed")
    port, authority = free_port(), trustme.CA()
    files = {suffix: place / f"proxy.{suffix}" for suffix in ("ca", "pem", "key", "conf")}
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(files["ca"])
    issued.private_key_pem.write_to_path(files["key"])
    files["pem"].write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    usual = {"trusted_proxy": TRUSTED, "public_url": f"https://localhost:{port}", "auth": "auto", "capacity": 0}
    async with serve(**{**usual, **options}) as here:
        file, arguments = PROGRAMS[name]
        changes = {"127.0.0.1:50551": here.address, "127.0.0.1:8080": here.web, "grader.example.org": "localhost"}
        changes |= {"/etc/grader/tls/cert.pem": str(files["pem"]), "/etc/grader/tls/key.pem": str(files["key"])}
        if name == "caddy":
            changes |= {"localhost {": f"localhost:{port} {{", "# tls ": "tls "}
        else:
            changes |= {"listen 443": f"listen 127.0.0.1:{port}", "listen [::]:443": f"listen [::1]:{port}"}
        text = (DEPLOY / file).read_text()
        for before, after in changes.items():
            assert before in text
            text = text.replace(before, after)
        files["conf"].write_text(AROUND[name] % text)
        environment = os.environ | {"XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
        words = [program, *(["-p", place, "-e", "stderr"] if name == "nginx" else []), *arguments, files["conf"]]
        process = await asyncio.create_subprocess_exec(*words, env=environment, cwd=place)
        proxy = Proxy(here, port, files["ca"])

        async def is_up():
            assert process.returncode is None, "the proxy ended"
            try:
                return (await proxy.curl("/")).status == 200
            except AssertionError:
                return False

        try:
            async with asyncio.timeout(60):
                await until(is_up)
            yield proxy
        finally:
            process.terminate()
            await process.wait()


async def test_calls_and_streams_come_through(serve, tmp_path, name):
    """gRPC, JSON and server-sent events, under one name, and each event when it is sent."""
    async with proxied(serve, tmp_path, name) as proxy:
        here = proxy.here
        async with GraderClient(proxy.base, key=here.key, ca=proxy.authority.read_bytes()) as client:
            assert (await client.get_caller()).user == USER
            over_grpc = [event.sequence async for event in client.watch(here.name)]
        assert (await proxy.curl("/v1/caller")).data["user"] == USER
        *events, end = (await proxy.curl(f"/v1/{here.name}:watch")).data
        assert [int(event["id"]) for event in events] == over_grpc and end["event"] == "end"
        waiting = (await here.http("Submit", (await requests_of(here))["Submit"])).data["name"]
        async with proxy.session() as session, asyncio.timeout(30), session.get(proxy.watch(waiting), headers=here.headers) as stream:
            assert b"SUBMISSION_STATE_QUEUED" in await stream.content.readuntil(b"\n\n")
        large = tmp_path / "large.json"
        large.write_bytes(b"{" + b" " * ((8 << 20) - 2) + b"}")
        refused = await proxy.curl(RULES["BatchSubmit"].path, "--json", f"@{large}")
        assert refused.status == 400 and refused.data["details"]  # the server's own words, not the proxy's


async def test_users_sign_in_through_it_and_other_sites_do_not(serve, tmp_path, name):
    """Cookies are for TLS and this host, the browser's origin is the pages', and commands name the proxy."""
    async with proxied(serve, tmp_path, name) as proxy, proxy.session() as session:
        ann = Reader(proxy.base, session)
        assert f"grader-cli login --server localhost:{proxy.port}\n" in (await ann.get("/problems/sum"))[1]
        foreign = {"Origin": "https://evil.example"}
        for headers in (foreign, {"Sec-Fetch-Site": "cross-site"}):
            assert (await ann.sign_in(proxy.here.key, headers=headers))[0].status == 403
        assert (await proxy.curl("/v1/caller", "-H", "Origin: https://evil.example")).status == 403
        assert (await proxy.curl("/v1/caller", "-H", f"Origin: {proxy.base}")).status == 200
        answer, _ = await ann.sign_in(proxy.here.key, headers={"Origin": proxy.base})
        assert answer.status == 303 and (await ann.get("/account"))[0].status == 200
        (cookie,) = [text for text in answer.headers.getall("Set-Cookie") if text.startswith("__Host-grader_session=")]
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        waiting = (await proxy.here.http("Submit", (await requests_of(proxy.here))["Submit"])).data["name"]
        async with asyncio.timeout(30), session.get(f"{proxy.base}/{waiting}/events") as stream:
            await stream.content.readuntil(b"data: ")
            assert b"queue" in await stream.content.readuntil(b"\n\n")


async def test_what_is_for_operators_stays_behind_it(serve, tmp_path, name):
    """However the path is written; health of gRPC too, whose calls need no key and are few for each address. The control asks the server
    itself."""
    async with proxied(serve, tmp_path, name) as proxy:
        for path in ("/metrics", "/healthz", "/readyz", "/%6detrics", "//metrics", "/x/../metrics"):
            assert (await proxy.curl(path)).status in (400, 404), path
        assert (await proxy.here.curl(proxy.here.url("/metrics"))).status == 200
        credentials = grpc.ssl_channel_credentials(proxy.authority.read_bytes())
        async with grpc.aio.secure_channel(proxy.base.removeprefix("https://"), credentials) as there:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await HealthStub(there).Check(HealthCheckRequest(), timeout=60)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        async with grpc.aio.insecure_channel(proxy.here.address) as channel:
            assert (await HealthStub(channel).Check(HealthCheckRequest(), timeout=60)).status


@pytest.mark.parametrize("trusted", [TRUSTED, ("192.0.2.1",)])
async def test_callers_are_counted_by_their_own_addresses(serve, tmp_path, name, trusted):
    """Whatever they say of themselves. The control trusts another proxy, and takes all for one caller."""
    async with proxied(serve, tmp_path, name, trusted_proxy=trusted, web_address_limit=8) as proxy:
        waiting = (await proxy.here.http("Submit", (await requests_of(proxy.here))["Submit"])).data["name"]
        url, key = proxy.watch(waiting), proxy.here.headers
        async with proxy.session("127.0.0.2") as first, proxy.session("127.0.0.3") as second:
            streams = [await first.get(url, headers=key) for _ in range(6)]
            assert {stream.status for stream in streams} == {200}
            spoofed = await first.get(url, headers={**key, "X-Forwarded-For": "198.51.100.7"})
            assert spoofed.status == 429
            assert (await second.get(url, headers=key)).status == (200 if trusted == TRUSTED else 429)
