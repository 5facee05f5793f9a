"""Additions to `grader-cli`: `show --html`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from grader.extensions import CommandLine
from grader.v1 import submission_pb2


class ReportCommands(CommandLine):
    """Reports as HTML files. Their templates take a tenth of a second to import, which only they need."""

    def report_files(self) -> Mapping[str, Callable[[submission_pb2.Submission], str]]:
        """Return what writes one."""
        return {"html": lambda submission: str(import_module("grader_extensions.web.report.report_file").report_file(submission))}
