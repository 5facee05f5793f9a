"""`grader-server`: reads settings, serves until SIGTERM."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from grader import devices
from grader.extensions import PACKAGE, command_lines
from grader.isolations import choices
from grader.server import installed_version
from sandbox.protocol.entry_points import EntryPointInvalid


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, or do what the first word says. 0 after a drain, 2 where the settings or the problems are wrong, 3 where we fail."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = ""
        if words and not words[0].startswith("-"):
            command = command_module(words[0])
            if not command:
                sys.stderr.write(f"grader-server: unknown command {words[0]!r}; see grader-server --help. {PACKAGE} adds some\n")
                return 2
        options = {} if command else {name: value for name, value in vars(parser().parse_args(words)).items() if value is not None}
        if find_spec("sqlalchemy") is None:
            remedy = "pip install '.[server,judge]' ./grader_extensions in a clone"
            sys.stderr.write(f"grader-server needs packages that are not installed: {remedy}\n")
            return 2
        if command:
            return int(import_module(command).main(words[1:]))
        # Only now: what serves takes most of a second to import, and --help does not need it.
        return int(import_module("grader.server.running").run(options))
    except EntryPointInvalid as error:
        sys.stderr.write(f"grader-server: {error}\n")
        return 2


def command_module(word: str) -> str:
    """The module of `grader-server WORD`, which has a `main(arguments) -> exit code`; "" where there is none."""
    commands = {name: command.module for line in command_lines() for name, command in line.server_commands().items()}
    return {**commands, "admin": "grader.server.admin"}.get(word, "")


def parser() -> argparse.ArgumentParser:
    """The command line. What is left out is left to `grader.config.Settings`, which checks the rest too."""
    command_parser = argparse.ArgumentParser(
        prog="grader-server",
        description="Grades GPU kernels that are sent to it over gRPC. Stop it with SIGTERM: it drains first.",
        epilog=f"Also: grader-server WORD --help, where WORD is admin or, with {PACKAGE}, backup, check or doctor.",
    )
    add: Any = command_parser.add_argument
    add("--version", action="version", version=f"%(prog)s {installed_version()}")
    add("--listen", metavar="ADDRESS", help="HOST:PORT or unix:/PATH (127.0.0.1:50551)")
    add("--state-dir", metavar="DIR", help="where the ledger is; one server at a time ($GRADER_STATE_DIR, or the user's state directory)")
    text = "postgresql://USER@HOST/DATABASE, which servers may share; a password is better in PGPASSWORD or ~/.pgpass "
    text += "($GRADER_DATABASE, or SQLite in the state directory)"
    add("--database", metavar="URL", default=os.environ.get("GRADER_DATABASE"), help=text)
    text = "where built artifacts are kept; servers may share it ($GRADER_CACHE_DIR, or in the state directory)"
    add("--cache-dir", metavar="DIR", help=text)
    add("--problems", metavar="DIR", nargs="+", help="directories of problems, or directories that hold such directories")
    add("--competitions", metavar="PATH", nargs="+", help="competition.toml files, their directories, or directories that hold such")
    text = "submissions that each user may make in an hour, in addition to a competition's own limit (0: any)"
    add("--hourly-limit", metavar="N", help=text)
    add("--daily-limit", metavar="N", help="as --hourly-limit, in 24 hours (0: any)")
    add_grading_options(command_parser)
    add("--fleet", metavar="FLEET", help="what grades: local, this host, or remote, workers that join at --fleet-listen (local)")
    add("--fleet-listen", metavar="ADDRESS", help="HOST:PORT, with mutual TLS, or unix:/PATH: where workers join (127.0.0.1:50552)")
    add("--auth", choices=("auto", "keys", "none"), help="require API keys (auto: if other hosts can connect; then always)")
    add("--tls-certificate", metavar="FILE", help="the server's certificate and intermediate certificates, in PEM")
    add("--tls-key", metavar="FILE", help="its key, in PEM without a password")
    text = "serve other hosts in plain text: a proxy in front does TLS, and no one else can connect"
    add("--insecure-no-tls", action="store_true", default=None, help=text)
    add("--queue-limit", metavar="N", help="submissions that may wait before more are refused (1000)")
    text = "the share of the queue that one user may fill, if keys are required; 1: all of it (0.25)"
    add("--user-queue-share", metavar="PART", help=text)
    add("--connection-limit", metavar="N", help="connections to the API that may be open (4096)")
    add("--web-connection-limit", metavar="N", help="connections to the web port that may be open (512)")
    add("--web-address-limit", metavar="N", help="the same from one address (128)")
    add("--health-call-limit", metavar="N", help="calls of the health service that may be open: they need no key (256)")
    add("--health-address-limit", metavar="N", help="the same from one address (64)")
    add_process_options(command_parser)
    add("--web", metavar="ADDRESS", help="serve pages, /metrics, /healthz and /readyz at PORT of this host, or at HOST:PORT (off)")
    text = "let scripts of these sites call the API over HTTP, such as https://board.example.org; *: of all, where keys are required (none)"
    add("--http-allow-origin", metavar="ORIGIN", nargs="+", help=text)
    add("--public-url", metavar="URL", help="where browsers reach the pages, such as https://grader.example.org; keys are then required")
    add("--api-address", metavar="HOST:PORT", help="where users reach the API, for pages to print (by the certificate or --public-url)")
    add("--trusted-proxy", metavar="ADDRESS", nargs="+", help="proxies whose X-Forwarded-For names the caller; keys are then required")
    add("--oidc-issuer", metavar="URL", help="let users sign in to pages with this OpenID Connect provider, which has a discovery document")
    add("--oidc-client-id", metavar="ID", help="this server's client id at the provider")
    add("--oidc-client-secret-file", metavar="FILE", help="the client's secret; the file must not be readable for everybody")
    add("--oidc-name", metavar="NAME", help="what users call the provider: 'Sign in with NAME' (the issuer's host)")
    text = "which of its users may sign in, by one rule of several: @DOMAIN for verified e-mail addresses, CLAIM=VALUE, or anyone"
    add("--oidc-allow", metavar="RULE", nargs="+", help=text)
    add("--trace", metavar="URL", help="send OpenTelemetry traces there; needs the extra 'trace' ($OTEL_EXPORTER_OTLP_ENDPOINT, or off)")
    add("--retain-sources-days", metavar="N", help="remove sources so long after the end; verdicts and scores stay (0: never)")
    add("--retain-events-days", metavar="N", help="remove events of attempts that decide no verdict, in the same way (0: never)")
    add("--retain-artifacts-days", metavar="N", help="remove the files of profiles so long after they were made (30; 0: never)")
    text = "where the files of profiles are kept; servers that share a database should share it (in the state directory)"
    add("--submission-files-dir", metavar="DIR", help=text)
    add("--submission-files-bytes", metavar="N", help="the size limit of all these files; the oldest are removed first (4 GiB)")
    return command_parser


def add_grading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how this host grades, for every program that grades."""
    add: Any = parser.add_argument
    add("--sandbox", choices=choices(), help="the sandbox for kernels (auto: the strongest that works)")
    add("--box-root", metavar="ROOT", help="what boxes see as their system: host, or image:NAME (host)")
    text = "let boxes see a copy of the host's toolchain in memory, so that no box learns by the page cache what an earlier one read "
    text += "($GRADER_RESIDENT_TOOLCHAIN, or where three times the copy's size is free)"
    add("--resident-toolchain", action=argparse.BooleanOptionalAction, default=None, help=text)
    add("--device", metavar="DEVICE", help=f"what kernels are run on: auto (the GPUs, if there are any), {devices.FORMS} (auto)")
    add("--lanes", metavar="N", help="emulated devices used at once, in addition to one lane for each GPU (1)")
    text = "run boxes that wait for the next job, with everything imported; 160 MB each, 320 MB on a GPU (two more than lanes and GPUs)"
    add("--warm-boxes", metavar="N", help=text)
    add("--cache-bytes", metavar="N", help="the size limit of built artifacts; 0: none are stored (2 GiB)")
    add("--builders", metavar="N", help="builds done at once (as many as lanes and memory leave cores for)")


def add_process_options(parser: argparse.ArgumentParser) -> None:
    """How a program that serves ends, and what it logs."""
    add: Any = parser.add_argument
    add("--drain-s", metavar="S", help="how long running submissions may go on after SIGTERM (60)")
    add("--log-format", choices=("console", "json"), help="how to log, to standard error (console)")
    add("--log-level", choices=("debug", "info", "warning", "error"), help="the lowest level that is logged (info)")


if __name__ == "__main__":
    sys.exit(main())
