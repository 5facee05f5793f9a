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
    said = capsys.readouterr().err
    structlog.reset_defaults()
    assert "planted-token" not in said and "ValueError" in said and "test_tracebacks.py" in said
    if log_format == "json":
        assert json.loads(said)["exception"][0]["exc_value"] == "13"
