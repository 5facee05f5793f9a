"""The files of competitions for servers under test."""

from datetime import UTC, datetime, timedelta

NOW = datetime.now(UTC)


def toml(name, start_h=-1.0, end_h=1.0, extra="", problems=("sum",), devices=("emulated",)):
    """A competition that began and ends so many hours from now."""
    start, end = ((NOW + timedelta(hours=hours)).isoformat() for hours in (start_h, end_h))
    lists = f"problems = {list(problems)}\ndevices = {list(devices)}\n"
    return f'name = "{name}"\ntitle = "T"\n{lists}start = {start}\nend = {end}\n{extra}'


def board_toml(extra=""):
    """A competition with two problems, on real and emulated devices, that has run for three hours and goes on for one."""
    return toml("spring", -3, 1, extra, problems=("sum", "other"), devices=("cuda", "emulated"))
