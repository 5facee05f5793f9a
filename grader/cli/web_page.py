"""`grader-cli open`: the page of a submission on the server's web port."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import typer

from grader.api import credentials
from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.cli.exits import Exit, Misuse
from grader.cli.options import Name, Server
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name


def open_command(
    name: Name,
    web: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="GRADER_WEB",
            help="Where the server's pages are, such as https://grader.example.org. Default: what `login --web` stored.",
            show_default=False,
        ),
    ] = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    server: Server = None,
) -> None:
    """Print the address of a submission's page, and open it in a browser where this is a terminal.

    A page shows what everybody may see. `grader-cli report ID --html FILE` writes a page of your own submission without a web server.
    """
    run(open_page(Target(server=server), name, web, browser=not no_browser and sys.stdout.isatty()))


async def open_page(target: Target, name: str, web: str, *, browser: bool) -> Exit:
    """Print the address; browser: and open it."""
    web = web or (credentials.find(target.server).web if target.server is not None else "")
    if not web:
        where = f"of {target.server} " if target.server is not None else ""
        raise Misuse(
            f"--web: nothing says where the pages {where}are; name the URL, or store it with: grader-cli login --web URL; "
            "without a web server use: grader-cli report ID --html FILE"
        )
    check_web(web)
    async with connect(target, Need.READ) as client:
        submission_id = resource_id(SUBMISSIONS, await whole_name(client, name))
    url = f"{web.rstrip('/')}/submissions/{submission_id}"
    print(url)
    if browser:
        webbrowser.open(url)
    return Exit.DONE


def check_web(url: str) -> None:
    """Misuse where it is no address of pages: a browser would take other schemes for commands."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or parts.query or parts.fragment:
        raise Misuse(f"--web: {url!r} is not the URL of a web server; write it as https://grader.example.org or http://127.0.0.1:8080")
