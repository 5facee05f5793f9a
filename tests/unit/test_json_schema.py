"""The JSON Schema of what commands print: every field of every message is in it, and what is printed fits."""

from __future__ import annotations

import json

import jsonschema
import pytest
from google.protobuf.message import Message
from typer.testing import CliRunner

from grader.api import messages, stable_json
from grader.api.json_schema import json_schema
from grader.cli.json_schema import PRINTED
from grader.cli.main import app
from grader.rules.disclosure import Redactor
from grader.v1 import submission_pb2
from tests import fakes


def closed(schema: dict[str, object]) -> dict[str, object]:
    """The schema without a place for fields that it does not name."""
    for definition in schema["$defs"].values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return schema


def check(message: Message) -> None:
    data = json.loads(stable_json.to_text(stable_json.to_data(message)))
    jsonschema.Draft202012Validator(closed(json_schema(message.DESCRIPTOR))).validate(data)


@pytest.mark.parametrize("command", PRINTED)
def test_a_command_prints_its_schema(command: str) -> None:
    """It is a valid schema, and takes an empty message."""
    done = CliRunner().invoke(app, ["json-schema", *command.split()])
    assert done.exit_code == 0, done.output
    schema = json.loads(done.output)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({}, schema)
    assert schema["title"] == PRINTED[command].DESCRIPTOR.name


def test_a_report_with_everything_set_fits() -> None:
    """Times, enums, 64-bit integers, infinities, maps and messages in messages."""
    report = messages.report_to_proto(fakes.report(), Redactor({}))
    submission = submission_pb2.Submission(name="submissions/a", report=report, state=submission_pb2.SUBMISSION_STATE_SUCCEEDED)
    submission.create_time.GetCurrentTime()
    submission.annotations["k"] = "v"
    assert "Infinity" in stable_json.to_text(stable_json.to_data(submission))
    check(submission)
