"""Imports of the command line at its start, and its message if an extra is not installed."""

import subprocess
import sys

import pytest

from grader.cli import extras

# jinja2 is of the base package, but one command only needs it.
OF_EXTRAS = {"aiohttp", "docker", "jinja2", "numpy", "prometheus_client", "psycopg"}
OF_EXTRAS |= {"pydantic", "sqlalchemy", "structlog", "torch", "tree_sitter", "tree_sitter_cuda", "yaml"}
IMPORTED = "import sys, grader.{}; print(*sys.modules)"


def imported_by(module):
    process = subprocess.run([sys.executable, "-c", IMPORTED.format(module)], capture_output=True, text=True, check=True, timeout=300)
    return {part for name in process.stdout.split() for part in (name, name.partition(".")[0])}


@pytest.mark.parametrize("module", ["cli.main", "api.client"])
def test_the_client_imports_no_package_of_an_extra(module):
    assert not imported_by(module) & OF_EXTRAS


def test_no_command_is_imported_before_it_is_used():
    """So that a short one starts fast. The control: a command's own module imports what it needs."""
    slow = {"grader.cli.submit", "grader.cli.login", "sandbox.protocol.wire", "grpc"}
    assert not imported_by("cli.main") & slow and slow - {"grader.cli.login"} <= imported_by("cli.submit")


@pytest.mark.slow
def test_the_server_of_a_command_imports_packages_of_an_extra():
    """The control: this test would notice one."""
    assert {"pydantic", "sqlalchemy", "structlog"} <= imported_by("cli.own_server") & OF_EXTRAS | imported_by("server.running") & OF_EXTRAS


def test_a_module_with_commands_is_loaded_when_it_is_used():
    module = extras.CommandModule("grader.cli.no_such_module", "server")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = module.command
