"""The problems that a command's own server would have, read without one: that takes a second less."""

from __future__ import annotations

from grader.api import messages
from grader.api.resource_names import PROBLEMS, parse
from grader.cli.session import Target, problem_roots
from grader.config import Settings, state_directory
from grader.problems.store import Problems
from grader.v1 import grader_service_pb2, problem_pb2


class OwnProblems:
    """Answers as a client does. What can't be read is left out, as a server does."""

    def __init__(self, target: Target) -> None:
        imported = Settings(state_dir=target.state_dir or state_directory()).imported_path
        self._problems = Problems.load(problem_roots(target), imported, report=lambda unreadable: None)

    async def list_problems(self, *, page_size: int = 0) -> grader_service_pb2.ListProblemsResponse:
        """Return all of them, by name."""
        return grader_service_pb2.ListProblemsResponse(problems=map(messages.problem_to_proto, self._problems.all()))

    async def get_problem(self, name: str) -> problem_pb2.Problem:
        """Return a problem."""
        return messages.problem_to_proto(self._problems.get(parse(PROBLEMS, name)))
