"""The gRPC server.  Imports nothing heavy: `grader-server --help` passes through."""

from importlib import metadata


def installed_version() -> str:
    """The version of the installed distribution; "unknown" where the programs run from a tree that is not installed."""
    try:
        return metadata.version("kernel-grader")
    except metadata.PackageNotFoundError:
        return "unknown"
