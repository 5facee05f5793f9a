"""What pydantic finds wrong is shown in our own words, everywhere."""

import pytest

from grader.errors import ProblemInvalid
from grader.formats import native
from grader.server import serve
from grader.server.commands import backup, doctor
from tests import fakes


def test_a_problem_s_mistake_is_a_sentence(tmp_path):
    """The file, and what to do; nothing of the library that found it."""
    text = fakes.PROBLEM_TOML.format(name="sum").replace('name = "c"', 'name = "a"')
    with pytest.raises(ProblemInvalid) as caught:
        native.load(fakes.write_problem(tmp_path, text=text))
    assert str(caught.value) == f"{tmp_path}/sum/problem.toml: two tensors have the same name; rename one"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (lambda: serve.run({"device": "tpu"}), "grader-server: --device: 'tpu' is not a device"),
        (lambda: serve.run({"fleet": "ray"}), "grader-server: --fleet: Ray runs in another process: start this server with --fleet remote"),
        (lambda: doctor.main(["--device", "tpu"]), "grader-server doctor: --device: 'tpu' is not a device"),
        (lambda: backup.main(["--database", "mysql://x", "copy"]), "grader-server: --database: is not a PostgreSQL URL"),
    ],
)
def test_an_option_s_mistake_is_a_sentence(capsys, command, told):
    """On stderr, after the option."""
    assert command() == serve.USAGE_ERROR
    assert capsys.readouterr().err.startswith(told)
