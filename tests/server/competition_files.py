"""The files of competitions for servers under test."""

from datetime import UTC, datetime, timedelta

NOW = datetime.now(UTC)


def toml(name, start_h=-1.0, end_h=1.0, more=""):
    """A competition that began and ends so many hours from now."""
    start, end = ((NOW + timedelta(hours=hours)).isoformat() for hours in (start_h, end_h))
    return f'name = "{name}"\ntitle = "T"\nproblems = ["sum"]\ndevices = ["emulated"]\nstart = {start}\nend = {end}\n{more}'
