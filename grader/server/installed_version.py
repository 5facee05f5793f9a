"""The installed distribution."""

from importlib import metadata


def installed_version() -> str:
    """Its version; "unknown" where the programs run from a tree that is not installed."""
    try:
        return metadata.version("kernel-grader")
    except metadata.PackageNotFoundError:
        return "unknown"
