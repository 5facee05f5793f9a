"""Exceptions in a log."""

import json

import pytest
import structlog

from grader.observability import log


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_has_no_values_of_variables(log_format, capsys):
    """Sources, keys and secret sizes are among them; the file, the line and the exception are shown."""
    log.configure(log_format)
    source = "planted-" + "token"
    try:
        raise ValueError(len(source))
    except ValueError:
        structlog.get_logger().exception("broke")
    output = capsys.readouterr().err
    structlog.reset_defaults()
    assert "planted-token" not in output and "ValueError" in output and "test_tracebacks.py" in output
    if log_format == "json":
        assert json.loads(output)["exception"][0]["exc_value"] == "13"
