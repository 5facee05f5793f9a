"""Pages of problems: what they show, to whom, and which commands they give."""

import re
from functools import partial

import pytest
import trustme
from pydantic import ValidationError

from grader.config import Settings
from grader.v1 import problem_pb2, submission_pb2
from grader_extensions.web import problem_pages
from grader_extensions.web.site import ApiAddress, api_address
from grader_extensions.web.tests.site import END, read_site

PAGE = "/problems/sum"


@pytest.fixture
def open_site(tmp_path):
    return partial(read_site, tmp_path, unescaped=True)


async def test_a_problem_page_has_all_that_an_author_needs(open_site):
    """Signature, arguments, tolerance, the public size, starters, the command, and the competition with its board."""
    async with open_site(open_server=True, api_address=ApiAddress(listen="127.0.0.1:50551")) as here:
        _, text = await here.get(PAGE)
        for part in (
            "A sum",
            'extern "C" void solve(const float* a, float* c, int64_t n, cudaStream_t stream)',
            "1e-05 + 1e-05 * |reference| for each element",
            "n64",
            "And 1 hidden.",
            "sum.cu",
            "sum_torch.cu",
            "sum.py",
            "grader-cli submit sum_torch.cu --problem sum --server 127.0.0.1:50551</pre>",
            "grader-cli submit sum_torch.cu --problem sum --competition spring --server 127.0.0.1:50551",
            'href="/competitions/spring?problem=sum"',
        ):
            assert part in text, part
        assert "secret33" not in text and "70368" not in text and "grader-cli login" not in text
        assert "reference" not in text.replace("|reference|", "")


async def test_the_list_links_to_every_problem(open_site):
    """By name, with how many sizes are shown and how many are not. What is not there has no page, nor has a starter of another name."""
    async with open_site() as here:
        _, text = await here.get("/problems")
        assert re.findall(r'href="/problems/(\w+)"', text) == ["other", "sum"]
        assert text.count("1 and 1 hidden") == 2
        absent = ("/problems/none", "/problems/SUM", "/problems/..%2f", "/problems/none/none.cu")
        for path in (*absent, f"{PAGE}/other.cu", f"{PAGE}/sum.toml"):
            assert (await here.get(path))[0].status == 404, path


async def test_a_starter_file_is_saved_and_not_shown(open_site):
    """With the headers of what a browser must not run; its text is the page's."""
    async with open_site() as here:
        _, page = await here.get(PAGE)
        answer, text = await here.get(f"{PAGE}/sum.py")
        assert (
            answer.headers["Content-Disposition"] == 'attachment; filename="sum.py"'
            and "sandbox" in answer.headers["Content-Security-Policy"]
        )
        assert "def solve(a: torch.Tensor) -> torch.Tensor:" in text and text in page


NAMES = ("localhost", "vm", "*.lab.example")  # of a certificate


@pytest.mark.parametrize(("address", "host", "server"), [
    ("127.0.0.1:50551", "127.0.0.1:80", "127.0.0.1:50551"),
    ("127.0.0.1:50551", "grader.example", "HOST:PORT"),  # a proxy is before it
    ("0.0.0.0:50551", "grader.example:8080", "grader.example:50551"),
    ("[::]:50551", "grader.example", "grader.example:50551"),
    ("0.0.0.0:50551", "a;b<c>", "HOST:PORT"),
    ("kernels.example:443", "grader.example", "kernels.example:443"),
    ("unix:/run/a b", "127.0.0.1:80", "'unix:/run/a b'"),
    ("unix:/run/grader", "grader.example", "HOST:PORT"),
    ("127.0.0.1:0", "127.0.0.1:80", "HOST:PORT"),
    ("", "127.0.0.1:80", "HOST:PORT"),
    (ApiAddress(listen="0.0.0.0:50551", names=NAMES), "127.0.0.1:80", "https://localhost:50551"),
    (ApiAddress(listen="0.0.0.0:50551", names=NAMES), "vm:8080", "vm:50551"),
    (ApiAddress(listen="0.0.0.0:50551", names=NAMES), "192.0.2.1", "vm:50551"),
    (ApiAddress(listen="0.0.0.0:50551", names=NAMES), "a.lab.example", "a.lab.example:50551"),
    (ApiAddress(listen="0.0.0.0:50551", names=NAMES[:1]), "192.0.2.1", "HOST:PORT"),
    (ApiAddress(listen="127.0.0.1:50551", names=NAMES), "127.0.0.1", "https://localhost:50551"),
    (ApiAddress(listen="127.0.0.1:50551", public="grader.example:443"), "grader.example", "grader.example:443"),
])  # fmt: skip
@pytest.mark.parametrize("asks_keys", [True, False])
async def test_the_command_names_this_server(open_site, address, host, server, asks_keys):
    """As the reader reaches it; where only an operator knows the address, the page states that."""
    address = ApiAddress(listen=address) if isinstance(address, str) else address
    async with open_site(api_address=address, open_server=not asks_keys) as here:
        _, text = await here.get(PAGE, Host=host)
        assert f"grader-cli submit sum_torch.cu --problem sum --server {server}</pre>" in text
        assert (f"grader-cli login --server {server}\n" in text) is asks_keys and "a;b" not in text
        assert ("its operator knows it" in text) is (server == "HOST:PORT")


@pytest.mark.parametrize("self_signed", [True, False])
async def test_the_command_to_log_in_names_the_certificate(open_site, self_signed):
    """Where it vouches for itself, and says where it and the key come from."""
    address = ApiAddress(listen="0.0.0.0:50551", names=("vm",), self_signed=self_signed)
    async with open_site(api_address=address) as here:
        _, text = await here.get(PAGE, Host="vm")
        assert f"grader-cli login --server vm:50551{' --ca FILE' if self_signed else ''}\n" in text
        assert ("FILE is the server's certificate" in text) is self_signed and "requires a key" in text


@pytest.mark.parametrize(("settings", "public"), [
    ({"listen": "127.0.0.1:50551"}, ""),
    ({"listen": "127.0.0.1:50551", "public_url": "https://a.example"}, "a.example:443"),
    ({"listen": "127.0.0.1:50551", "public_url": "https://a.example:8443/"}, "a.example:8443"),
    ({"listen": "127.0.0.1:50551", "public_url": "https://[2001:db8::1]"}, "[2001:db8::1]:443"),
    ({"listen": "127.0.0.1:50551", "public_url": "http://127.0.0.1:8080"}, ""),
    ({"listen": "0.0.0.0:50551", "public_url": "https://a.example"}, ""),
    ({"listen": "0.0.0.0:50551", "public_url": "https://a.example", "insecure_no_tls": True}, "a.example:443"),
    ({"listen": "0.0.0.0:50551", "public_url": "https://a.example", "api_address": "b.example:7"}, "b.example:7"),
])  # fmt: skip
def test_a_proxy_has_the_api_under_the_name_of_the_pages(settings, public):
    """Unless another address is named, or clients reach this server's own port."""
    assert api_address(Settings(**settings)).public == public


@pytest.mark.parametrize("address", ["50551", ":50551", "b.example", "b.example:0", "b.example:70000", "b.example/x:7"])
def test_an_address_for_users_has_a_host_and_a_port(address):
    """A port alone, which `--web` takes, would be printed for users as it is. The control: with the scheme that clients take."""
    with pytest.raises(ValidationError, match="write HOST:PORT"):
        Settings(api_address=address)
    assert Settings(api_address="https://localhost:7").api_address == "https://localhost:7"


@pytest.mark.parametrize("self_signed", [True, False])
def test_names_and_issuer_are_read_from_the_certificate(tmp_path, self_signed):
    """All names; clients are given a certificate that vouches for itself, and not one of an authority."""
    authority, path = trustme.CA(), tmp_path / "tls.pem"
    issued = authority.cert_pem if self_signed else authority.issue_cert("vm.example", "127.0.0.1").cert_chain_pems[0]
    path.write_bytes(issued.bytes())
    address = api_address(Settings(listen="0.0.0.0:50551", tls_certificate=path, tls_key=path))
    assert address.self_signed is self_signed and set(address.names) == (set() if self_signed else {"vm.example", "127.0.0.1"})


@pytest.mark.parametrize("open_server", [True, False])
async def test_baseline_times_are_of_submissions_that_the_reader_may_see(open_site, open_server):
    """All on an open server; else those of a competition that was opened, and none before."""
    async with open_site(open_server=open_server) as here:
        await here.enter("ann", 2.0, competition_id="", stored=True)
        assert ("PyTorch's times" in (await here.get(PAGE))[1]) is open_server
        await here.enter("ann", 2.0, device="B200", stored=True)
        assert ("B200" in (await here.get(PAGE))[1]) is open_server
        here.clock.now = END
        _, text = await here.get(PAGE)
        assert "PyTorch's times" in text and "B200" in text and ("H200" in text) is open_server
        assert "PyTorch's times" not in (await here.get("/problems/other"))[1]


async def test_baseline_times_of_another_problem_are_not_shown(open_site):
    """The other problem had the same name, and another reference."""
    async with open_site(open_server=True) as here:
        await here.enter("ann", 2.0)
        assert "PyTorch's times" not in (await here.get(PAGE))[1]


def test_baseline_times_are_the_newest_of_each_device():
    """At public sizes only, the median over processes; a hidden size has no row."""
    problem = problem_pb2.Problem(name="problems/p", workloads=[problem_pb2.Workload(workload_id="n64", axes={"n": 64})])
    rows = problem_pages.baseline_rows(problem, [timed("H100", 3000, 5000), timed("H100", 9000), timed("B200", 1000)])
    assert [(row["device"], row["workload_id"], row["times"]) for row in rows] == [
        ("B200", "n64", {"eager": "1.00 us"}), ("H100", "n64", {"eager": "4.00 us"}),
    ]  # fmt: skip


def timed(device, *times_ns):
    """A submission with a time in each process, and with a hidden size."""
    submission = submission_pb2.Submission()
    submission.report.environment.device = device
    for time_ns in times_ns:
        for name, hidden in (("n64", False), ("n64", True), ("secret33", False)):
            measured = submission.report.measurements.add(workload_id=name, hidden=hidden)
            measured.baselines["eager"].median_duration.FromNanoseconds(time_ns if name == "n64" and not hidden else 77)
    return submission


def test_a_problem_without_known_arguments_has_no_signature():
    """As in formats of which only the judge knows them."""
    shown = problem_pages.problem(problem_pb2.Problem(name="problems/p", entry="custom_kernel"), [], (), END)
    assert shown["signature"] == "" and shown["tensors"] == [] and shown["submit_to"] == []
    assert shown["submit"] == "grader-cli submit FILE --problem p --server HOST:PORT"
