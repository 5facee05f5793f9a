"""Fills a competition with submissions of several users, so that its organisers see boards, freeze, final and export before the day.

Usage: GRADER_SERVER=HOST:PORT python examples/fill_competition.py COMPETITION KEYS_CSV KERNELS
KEYS_CSV is from `grader-server admin keys import`. KERNELS has a folder of kernels for each problem, as kernels_examples has. A server with
`--device emulated` needs no GPU; its boards are marked as practice.
"""

from __future__ import annotations

import asyncio
import csv
import os
import sys
from pathlib import Path

from grader.api.client import GraderClient
from grader.v1 import report_pb2, submission_pb2
from grader_extensions.competitions.calls import CompetitionCalls

KERNELS_OF_USER = 2  # to each problem


async def submit(server: str, competition: str, user: dict[str, str], number: int, kernels: Path) -> None:
    """Submit as this user to every problem, one kernel after the other, and print the verdicts."""
    async with GraderClient(server, key=user["key"]) as client:
        for problem in (await CompetitionCalls(client).get_competition(f"competitions/{competition}")).problems:
            paths = sorted((kernels / problem.removeprefix("problems/")).glob("*.cu"))
            for path in (paths[(number + step) % len(paths)] for step in range(min(KERNELS_OF_USER, len(paths)))):
                submission = await client.submit(
                    submission_pb2.Submission(
                        problem=problem,
                        competition=f"competitions/{competition}",
                        mode=submission_pb2.MODE_RANKED,
                        sources=[submission_pb2.SourceFile(path=path.name, content=path.read_text("utf-8"))],
                    )
                )
                async for event in client.watch(submission.name):
                    if event.HasField("submission"):
                        submission = event.submission
                print(user["user"], problem, path.name, report_pb2.Verdict.Name(submission.report.verdict))


async def main(competition: str, keys: Path, kernels: Path) -> None:
    """Submit as every user of the file at the same time."""
    server = os.environ.get("GRADER_SERVER", "127.0.0.1:50551")
    async with asyncio.TaskGroup() as group:
        for number, user in enumerate(csv.DictReader(keys.read_text("utf-8").splitlines())):
            group.create_task(submit(server, competition, user, number, kernels))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
