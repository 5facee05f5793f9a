"""`grader-server rehearse DIR`: a competition with made-up users and simulated times, served with pages, without a GPU."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader import devices
from grader.errors import GraderError, ProblemInvalid, SettingsInvalid
from grader.problems.competition_store import FILE_NAME
from grader.server.grading import Wiring
from grader.server.rehearsal import ORGANISER_KEY, USER_COUNT, USER_KEY, Rehearsal, RehearsalStage, prepare
from grader.server.serve import run
from grader.server.settings import FAILED, print_line, usage_error
from grader.server.simulated_grading import wiring

PROGRAM = "grader-server rehearse"
LISTEN, WEB = "127.0.0.1:50561", "127.0.0.1:8081"


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM. 0 after that, 2 where the words or the competition are wrong, 3 where we fail."""
    given = parser().parse_args(arguments)
    if given.competition is not None and not given.problems:
        return usage_error(PROGRAM, "--competition needs the problems of that competition; name their directories with --problems DIR")
    if given.competition is None and given.problems:
        return usage_error(PROGRAM, "--problems is for a competition of your own; name it with --competition FILE, or leave --problems out")
    try:
        made = asyncio.run(
            prepare(
                given.directory.absolute(),
                stage=RehearsalStage(given.stage),
                now=datetime.now(UTC),
                seed=given.seed,
                file=given.competition,
                problem_dirs=given.problems,
            )
        )
    except (SettingsInvalid, ProblemInvalid) as error:
        return usage_error(PROGRAM, str(error))
    except (GraderError, OSError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return FAILED
    again = f"{PROGRAM} {shlex.quote(str(made.directory))}"
    options = (("--listen", given.listen, LISTEN), ("--web", given.web, WEB))
    again += "".join(f" {option} {shlex.quote(one)}" for option, one, usual in options if one != usual)

    def introduce(listen: str, web: str) -> None:
        print_line("\n".join(introduction(made, RehearsalStage(given.stage), listen, web, again)))
        sys.stdout.flush()

    if given.fill_only:
        introduce(given.listen, given.web)
        return 0
    # Once it serves: port 0 is then the port that the system chose.
    return run(
        served_settings(made, given.listen, given.web),
        simulated(made),
        ready=lambda running: introduce(running.address, running.web_address),
    )


def served_settings(made: Rehearsal, listen: str, web: str) -> dict[str, Any]:
    """The settings of the server that shows a rehearsal."""
    return {
        "state_dir": made.directory,
        "problems": made.record.problem_dirs,
        "competitions": (made.directory / FILE_NAME,),
        "listen": listen,
        "web": web,
        "auth": "keys",  # so that a user sees what a user sees: a frozen board is not frozen for administrators
        "notice": devices.SIMULATED,
        "log_level": "warning",
    }


def simulated(made: Rehearsal) -> Wiring:
    """What grades there: made-up facts, on every device that the competition names."""
    return wiring(made.record.seed, tuple(dict.fromkeys((*made.competition.device_kinds, devices.CUDA, devices.EMULATED))))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description=f"Fills a competition with {USER_COUNT} made-up users and simulated times, and serves it with pages, so that board, "
        "ties, freeze, final, rejudge and export can be tried without a GPU. Nothing is built or run. Stop it with SIGTERM or Ctrl-C; "
        "the same command goes on with what is in DIR.",
    )
    made.add_argument("directory", type=Path, metavar="DIR", help="a directory of the rehearsal's own, new or of an earlier one")
    made.add_argument("--competition", type=Path, metavar="FILE", help="your own competition.toml; its times and title are replaced (ours)")
    made.add_argument("--problems", type=Path, nargs="+", default=[], metavar="DIR", help="the problems of your own competition")
    made.add_argument("--seed", type=int, metavar="N", help="draws the users' places and times; the same seed makes the same boards (1)")
    made.add_argument(
        "--stage",
        choices=tuple(RehearsalStage),
        default=RehearsalStage.FROZEN,
        help="when in the competition it is; give another one later to see what changes (frozen)",
    )
    made.add_argument("--listen", default=LISTEN, metavar="ADDRESS", help=f"HOST:PORT of the API ({LISTEN})")
    made.add_argument("--web", default=WEB, metavar="ADDRESS", help=f"PORT or HOST:PORT of the pages ({WEB})")
    made.add_argument("--fill-only", action="store_true", help="fill DIR, print what to try, and serve nothing")
    return made


def introduction(made: Rehearsal, stage: RehearsalStage, listen: str, web: str, again: str) -> list[str]:
    """What a rehearsal is, where it is, and the commands to try. again: the command that serves it again, without a stage."""
    name, directory = shlex.quote(made.competition.competition_id), shlex.quote(str(made.directory))
    page = web if ":" in web else f"127.0.0.1:{web}"
    organiser, user = (f'GRADER_KEY="$(cat {directory}/{one})"' for one in (ORGANISER_KEY, USER_KEY))
    device = shlex.quote(made.competition.device_kinds[0])
    steps = [
        ("the board as users see it", f"{user} grader-cli leaderboard {name}"),
        ("the board as organisers see it", f"{organiser} grader-cli leaderboard {name}"),
        (
            "what organisers did: one submission is withdrawn, which would lead the board of a problem",
            f"{organiser} grader-cli competitions actions {name}",
        ),
        ("announce something", f"{organiser} grader-cli competitions announce {name} 'A rehearsal'"),
        ("rejudge preview", f"{organiser} grader-cli rejudge create --run --competition {name} --cause rehearsal"),
        ("final", f"{organiser} grader-cli final {name} --top 5 --device {device}"),
        ("export", f"{organiser} grader-cli competitions export {name} --out {name}.zip"),
        ("the stages, each after Ctrl-C here", *(f"{again} --stage {one}" for one in RehearsalStage if one is not stage)),
    ]
    count = f"{USER_COUNT} users, {made.record.submission_count} submissions, seed {made.record.seed}, stage {stage}"
    lines = [devices.SIMULATED, count, f"pages: http://{page}/competitions/{name}", f"API: {listen}", "Try in another terminal:"]
    lines.append(f"  export GRADER_SERVER={shlex.quote(listen)}")
    for title, *commands in steps:
        lines += [f"  # {title}", *(f"  {one}" for one in commands)]
    return lines
