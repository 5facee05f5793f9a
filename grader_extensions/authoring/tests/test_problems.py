"""`grader-cli problems list` and `show`."""

import io
import json
import re

from rich.console import Console

from grader.v1 import problem_pb2
from grader_extensions.authoring import commands
from tests.unit.test_cli_commands import address, run  # noqa: F401  # address is a fixture


def test_problems_are_listed_and_shown(address):  # noqa: F811
    """A name that is not there is answered with one that is."""
    assert "sum      A sum" in run("problems", "list", "--server", address).stdout
    assert json.loads(run("problems", "list", "--server", address, "--json").stdout)["problems"][0]["name"] == "problems/sum"
    assert "and 1 more that are not shown" in run("problems", "show", "sum", "--server", address).stdout
    assert json.loads(run("problems", "show", "problems/sum", "--server", address, "--json").stdout)["entry"] == "solve"
    absent = run("problems", "show", "sun", "--server", address)
    assert absent.exit_code == 2 and "there is no problem 'sun'; take one of: sum. Did you mean 'sum'?" in " ".join(absent.stderr.split())


def shown_problem(problem):
    out = io.StringIO()
    Console(file=out, width=160, markup=False).print(*commands.render(problem), sep="\n")
    return out.getvalue()


def test_a_problem_shows_what_a_kernel_for_it_looks_like():
    """The exact signature for cuda, and the same arguments as a torch extension."""
    problem = problem_pb2.Problem(
        name="problems/tril_matmul",
        title="Lower triangle",
        statement="Multiply.",
        languages=["cuda", "torch_extension"],
        axes=["n"],
        entry="solve",
        workloads=[problem_pb2.Workload(workload_id="n64", axes={"n": 64})],
        hidden_workload_count=3,
        inputs=[problem_pb2.Tensor(name=name, dtype="float32", shape=["n", "n"]) for name in "ab"],
        outputs=[problem_pb2.Tensor(name="c", dtype="float32", shape=["n", "n"])],
        tolerance=problem_pb2.Tolerance(atol=1e-4, rtol=1e-3, budget_factor=32),
        cuda_signature='extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream)',
    )
    text = shown_problem(problem)
    parts = (problem.cuda_signature, "torch::Tensor forward(torch::Tensor a, torch::Tensor b) {", "return c;", "n = 64", "float32", "n, n")
    for part in (*parts, "and 3 more that are not shown", "0.0001 + 0.001 * |reference|", "32 times"):
        assert part in text


def test_a_workload_says_its_device_and_its_own_tolerance():
    tolerance = problem_pb2.Tolerance(atol=5e-3, rtol=1e-4)
    big = problem_pb2.Workload(workload_id="n4096", axes={"n": 4096}, device_kind="cuda", tolerance=tolerance)
    problem = problem_pb2.Problem(name="problems/p", axes=["n"], workloads=[problem_pb2.Workload(workload_id="n64", axes={"n": 64}), big])
    assert re.search(r"n64 +n = 64 +any +as above", shown_problem(problem))
    assert re.search(r"n4096 +n = 4,096 +cuda +0\.005 \+ 0\.0001", shown_problem(problem))
