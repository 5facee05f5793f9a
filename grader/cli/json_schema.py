"""`grader-cli json-schema`: the form of what a command prints with --json."""

from __future__ import annotations

from typing import Annotated

import typer
from google.protobuf.message import Message

from grader.api import stable_json
from grader.api.json_schema import json_schema
from grader.cli.suggestions import did_you_mean
from grader.v1 import competition_pb2, grader_service_pb2, problem_pb2, rejudge_pb2, submission_pb2

# What prints a message of the API. `diff`, `sweep`, `doctor` and the checks print records of their own.
PRINTED: dict[str, type[Message]] = {
    "submit": submission_pb2.Submission,
    "watch": submission_pb2.Submission,
    "show": submission_pb2.Submission,
    "cancel": submission_pb2.Submission,
    "list": grader_service_pb2.ListSubmissionsResponse,
    "artifacts": grader_service_pb2.ListArtifactsResponse,
    "leaderboard": competition_pb2.Leaderboard,
    "problems list": grader_service_pb2.ListProblemsResponse,
    "problems show": problem_pb2.Problem,
    "competitions list": grader_service_pb2.ListCompetitionsResponse,
    "competitions show": competition_pb2.Competition,
    "whoami": grader_service_pb2.Caller,
    "quota": grader_service_pb2.Caller,
    "withdraw": submission_pb2.Submission,
    "competitions ban": competition_pb2.Ban,
    "competitions bans": grader_service_pb2.ListBansResponse,
    "competitions actions": grader_service_pb2.ListCompetitionActionsResponse,
    "competitions reload": grader_service_pb2.ReloadCompetitionsResponse,
    "rejudge show": rejudge_pb2.Rejudge,
    "rejudge list": grader_service_pb2.ListRejudgesResponse,
}


def _check(words: list[str]) -> list[str]:
    name = " ".join(words)
    if words and name not in PRINTED:
        raise typer.BadParameter(f"{name!r} prints no message with --json; take one of: {', '.join(PRINTED)}.{did_you_mean(name, PRINTED)}")
    return words


def json_schema_command(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", callback=_check, help="Such as submit, list, or problems show.")],
) -> None:
    """Print the JSON Schema (draft 2020-12) of what a command prints with --json.

    Fields without a value are left out there, 64-bit integers and times are strings, and a later version may add fields.
    """
    print(stable_json.to_text(json_schema(PRINTED[" ".join(command)].DESCRIPTOR), indent=2))
