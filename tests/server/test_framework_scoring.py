"""The scoring function of examples/frameworks against a server whose grading is a fake; tests/frameworks runs it in each framework."""

import asyncio
import logging
import runpy
import subprocess
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import pytest

import grader
from examples.frameworks import scripted_model
from examples.frameworks.harbor import grader_harbor_mean
from examples.frameworks.harbor.grader_harbor_mean import mean_of_scored
from examples.frameworks.scoring import grader_scoring
from tests import fakes


@pytest.fixture
async def address(client, monkeypatch):
    monkeypatch.setenv("GRADER_SERVER", client.address)
    return client.address


def answer(order):
    return f'Here it is:\n```cuda\n// grade: {order}\nextern "C" void solve();\n```\nIt is right.'


@pytest.mark.parametrize(("order", "reward"), [("accept", 1.0), ("wrong", 0.0)])
async def test_a_verdict_is_a_reward(address, order, reward):
    score = await grader_scoring.score(answer(order), "sum")
    assert (score.reward, score.verdict == "ACCEPTED") == (reward, reward == 1.0)
    assert score.name and score.feedback


@pytest.mark.parametrize("order", ["fault", "bug"])
async def test_a_failure_of_the_grader_is_no_reward(address, order):
    with pytest.raises(grader.Unscored):
        await grader_scoring.score(answer(order), "sum")


async def test_a_call_that_ends_too_late_is_no_reward(address, monkeypatch):
    monkeypatch.setenv("GRADER_TIMEOUT_S", "0.5")
    with pytest.raises(grader.Unscored):
        await grader_scoring.score(answer("hang"), "sum")


async def test_a_server_that_is_not_there_is_no_reward(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADER_SERVER", f"unix:{tmp_path}/none")
    monkeypatch.setenv("GRADER_TIMEOUT_S", "1")
    with pytest.raises(grader.Unscored):
        await grader_scoring.score(answer("accept"), "sum")


@pytest.mark.parametrize(
    "text",
    [
        "only words",
        "```cuda\nnot closed",
        "```cuda\n  \n```",
        "```cuda\nvoid other();\n```",
        f"```cuda\n{'x' * 2_000_000}\n```",
        "```cuda\n\ud800\n```",
    ],
)
async def test_an_answer_that_is_no_kernel_gets_zero(address, grade, text):
    """Were it unscored, a model could choose to be."""
    score = await grader_scoring.score(text, "sum")
    assert (score.reward, score.verdict, grade.attempts) == (0.0, grader_scoring.NOT_SUBMITTED, [])


async def test_a_problem_that_does_not_exist_is_no_reward(address):
    """The model does not choose the problem."""
    with pytest.raises(grader.Unscored):
        await grader_scoring.score(answer("accept"), "absent")


async def test_a_path_in_an_answer_is_a_text(address, tmp_path):
    """The kernel at that path would be accepted."""
    path = tmp_path / "kernel.cu"
    path.write_text('extern "C" void solve();\n', "utf-8")
    score = await grader_scoring.score(f"```cuda\n{path}\n```", "sum")
    assert (score.reward, score.verdict) == (0.0, grader_scoring.NOT_SUBMITTED)


def test_the_last_block_counts():
    text = "```cuda\nfirst\n```\nbetter:\n```python\nsecond\n```\n"
    assert grader_scoring.files(text) == {"kernel.py": "second\n"}


def test_the_first_line_of_a_block_is_read_in_linear_time():
    """Of 300 KB that never ends, in a process of its own: with a pattern that goes back in it, it took a minute."""
    code = "from examples.frameworks.scoring.grader_scoring import files; assert files('```' + 'a' * 300_000) == {}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


async def test_a_prompt_names_the_problem_and_its_signature(address):
    prompts = await asyncio.to_thread(grader_scoring.prompts)
    assert sorted(prompts) == ["other", "sum"]
    assert "`problems/sum`" in prompts["sum"] and "void solve(" in prompts["sum"] and "```cuda" in prompts["sum"]


def test_the_mean_for_harbor_leaves_out_what_is_unscored():
    assert mean_of_scored(['{"reward": 1.0}', "null", '{"reward": 0.0}']) == {"mean_of_scored": 0.5, "scored": 2, "unscored": 1}
    assert mean_of_scored(["null"]) == {"scored": 0, "unscored": 1}


class HarborEnvironment:
    """Of an agent: a command there ends so, and a copy into it, too."""

    def __init__(self, ended, copied=None):
        self.ended, self.copied = ended, copied

    async def exec(self, command, timeout_sec):
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended

    async def upload_file(self, source, target):
        if self.copied is not None:
            raise self.copied


@pytest.fixture
def harbor_verify(address, monkeypatch, tmp_path):
    """The verifier of examples/frameworks/harbor without Harbor, which needs a newer Python."""

    class Verifier:
        trial_paths = SimpleNamespace(verifier_dir=tmp_path, test_stdout_path=tmp_path / "out.txt")
        task = SimpleNamespace(config=SimpleNamespace(metadata={"problem": "sum"}))
        logger = logging.getLogger("harbor")

    for name in ("harbor", "harbor.models", "harbor.models.verifier", "harbor.verifier"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "harbor.models.verifier.result", SimpleNamespace(VerifierResult=SimpleNamespace))
    monkeypatch.setitem(sys.modules, "harbor.verifier.base", SimpleNamespace(BaseVerifier=Verifier))
    monkeypatch.setitem(sys.modules, "grader_scoring", grader_scoring)
    monkeypatch.setitem(sys.modules, "grader_harbor_mean", grader_harbor_mean)
    verifier_class = runpy.run_path(str(scripted_model.HERE / "harbor/grader_harbor.py"))["GraderVerifier"]

    async def verify(environment):
        verifier = verifier_class()
        verifier.environment = environment
        return (await verifier.verify()).rewards["reward"]

    return verify


BROKEN = (TimeoutError(), RuntimeError("Command timed out"), SimpleNamespace(return_code=127, stdout="", stderr="sh: not found"))


@pytest.mark.parametrize("ended", BROKEN)
async def test_an_agent_that_breaks_its_shell_gets_zero(harbor_verify, ended):
    """Were it unscored, an agent could choose which of its trials count. One whose environment is away is unscored."""
    assert await harbor_verify(HarborEnvironment(ended)) == 0.0
    with pytest.raises(ConnectionError):
        await harbor_verify(HarborEnvironment(ended, ConnectionError()))


async def test_a_kernel_is_taken_out_of_the_environment(harbor_verify):
    """The control."""
    listing = "/app/kernel.cu\n" + fakes.source("accept")
    assert await harbor_verify(HarborEnvironment(SimpleNamespace(return_code=0, stdout=listing, stderr=""))) == 1.0


def test_the_scripted_model_has_twenty_answers_ten_of_them_right():
    answers = tomllib.loads((scripted_model.HERE / "answers.toml").read_text("utf-8"))
    assert (len(answers["right"]), len(answers["wrong"])) == (10, 10)
    for name in answers["right"]:
        assert scripted_model.kernel(name).startswith("// expect: ACCEPTED\n")
    for name in answers["wrong"]:
        assert "ACCEPTED" not in scripted_model.kernel(name).split("\n")[0]
