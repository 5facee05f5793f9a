"""Additions to `grader-cli`, `show --html`, and to `grader-server doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from grader.errors import SettingsInvalid
from grader.extensions import CommandLine
from grader.v1 import submission_pb2

if TYPE_CHECKING:
    from grader.config import Settings


class ReportCommands(CommandLine):
    """Reports as HTML files. Their templates take a tenth of a second to import, which only they need."""

    def checkups(self, settings: Settings) -> Iterable[tuple[str, str, bool]]:
        """Look at the settings of the identity provider."""
        try:
            provider = import_module("grader_extensions.web.identities").identity_provider(settings)
        except SettingsInvalid as error:
            return [("sign-in", str(error), True)]
        if provider is None:
            return []
        return [("sign-in", f"with {provider.issuer}, which has to know the redirect URI {provider.redirect_uri}", False)]

    def report_files(self) -> Mapping[str, Callable[[submission_pb2.Submission], str]]:
        """Return what writes one."""
        return {"html": lambda submission: str(import_module("grader_extensions.web.report.report_file").report_file(submission))}
