"""`grader-cli problems list`."""

from __future__ import annotations

from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli.exits import Exit
from grader.cli.options import Json, Server, StateDir
from grader.cli.output import print_message, text_table
from grader.cli.session import Target, problem_reader
from grader.v1 import grader_service_pb2


async def list_command(server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """List the problems."""
    async with problem_reader(Target(server=server, state_dir=state_dir)) as reader:
        problems = (await reader.list_problems(page_size=1000)).problems
    rows = []
    for problem in problems:
        hidden = f" and {problem.hidden_workload_count} hidden" if problem.hidden_workload_count else ""
        sizes = f"{len(problem.workloads)}{hidden}"
        rows.append((resource_id(PROBLEMS, problem.name), problem.title, problem.format, ", ".join(problem.languages), sizes))
    table = text_table(("problem", "title", "format", "languages", "sizes"), rows)
    empty = "no problems here; import some with 'grader-cli problems import PATH', or submit a file that is next to its problem.toml"
    print_message(grader_service_pb2.ListProblemsResponse(problems=problems), [table] if rows else empty, json=json)
    return Exit.DONE
