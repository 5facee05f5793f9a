"""What the time of a submission went into, as one bar of characters."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from grader.cli.text import plain

WIDTH = 60
_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red")
_BLOCK = "\u2588"


def step_bar(seconds: Mapping[str, float]) -> Text:
    """One bar, and below it each step with its time; a step that is too short for a character has none. Empty without any time."""
    total = sum(seconds.values())
    if total <= 0:
        return Text()
    bar, words = Text("time: "), Text(f"{total:.2f} s = ", style="dim")
    drawn, passed = 0, 0.0
    for index, (name, length) in enumerate(seconds.items()):
        passed += length
        width = round(WIDTH * passed / total) - drawn
        drawn += width
        style = _STYLES[index % len(_STYLES)]
        bar.append(_BLOCK * width, style=style)
        words += plain(" + " if index else "", "dim") + plain(f"{name} {length:.2f}", style)
    return bar + Text("\n") + words
