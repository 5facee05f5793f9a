"""Builds SVG elements.  All text and attributes are escaped, and characters that could hide or reorder text are written as escapes."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from grader.views.sanitize import one_line

NAMESPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, sans-serif"
TEXT_PX = 12
CHARACTER_PX = 7.0  # of an average character at TEXT_PX
LABEL_CHARS = 40  # of one name; its <title> has more of it
# Okabe and Ito's colours for colour-blind readers, darkened where a thin line on white needs it.
COLORS = ("#0b5cad", "#b35309", "#6b3fa0", "#00765a", "#a3266e", "#5c5c00")
MARKS = ("circle", "square", "cross", "triangle", "diamond", "plus")
_MARK_PATHS = {
    "circle": "M{x} {y}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
    "square": "M{x} {y}m-3 -3h6v6h-6z",
    "cross": "M{x} {y}m-3 -3l6 6m0 -6l-6 6",
    "triangle": "M{x} {y}m0 -4l4 7h-8z",
    "diamond": "M{x} {y}m0 -4.5l4 4.5l-4 4.5l-4 -4.5z",
    "plus": "M{x} {y}m-4 0h8m-4 -4v8",
}


def number(value: float) -> str:
    """A coordinate: one decimal, without a useless zero."""
    return f"{value:.1f}".rstrip("0").rstrip(".").replace("-0", "0") if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")


def drawing(width: float, height: float, *, title: str, description: str, kind: str) -> ElementTree.Element:
    """An empty picture that is named and described for readers who do not see it. kind: its class."""
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": NAMESPACE,
            "class": f"chart {kind}",
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "width": number(width),
            "height": number(height),
            "role": "img",
            "fill": "none",
            "font-family": FONT,
            "font-size": str(TEXT_PX),
        },
    )
    ElementTree.SubElement(root, "title").text = one_line(title)
    ElementTree.SubElement(root, "desc").text = one_line(description, most_chars=2000)
    return root


def line(parent: ElementTree.Element, x1: float, y1: float, x2: float, y2: float, kind: str, **attributes: str) -> ElementTree.Element:
    """A straight line. kind: its class; attributes: `_` stands for `-`."""
    places = {"x1": number(x1), "y1": number(y1), "x2": number(x2), "y2": number(y2)}
    return _add(parent, "line", kind, {**places, **attributes})


def path(parent: ElementTree.Element, commands: Iterable[str], kind: str, **attributes: str) -> ElementTree.Element:
    """A path of commands that this package made."""
    return _add(parent, "path", kind, {"d": "".join(commands), **attributes})


def text(parent: ElementTree.Element, x: float, y: float, words: str, kind: str = "label", **attributes: str) -> ElementTree.Element:
    """A text; anchor and size are attributes."""
    element = _add(parent, "text", kind, {"x": number(x), "y": number(y), "fill": "currentColor", **attributes})
    element.text = one_line(words)
    return element


def hover(parent: ElementTree.Element, words: str) -> None:
    """Add the text that a browser shows where the pointer rests."""
    element = ElementTree.Element("title")
    element.text = one_line(words)
    parent.insert(0, element)


def mark(shape: str, x: float, y: float) -> str:
    """The path of one mark."""
    return _MARK_PATHS[shape].format(x=number(x), y=number(y))


def repeated(places: Iterable[tuple[float, float]], mark_commands: str, *, sinks: int = 0) -> list[str]:
    """Commands of a path with the same mark at each place, short because a page has thousands. mark_commands: relative ones, which end
    `sinks` below where they began; "h0" is a dot that the line's cap draws."""
    commands: list[str] = []
    last_x = last_y = 0
    for x, y in places:
        tenth_x, tenth_y = round(x * 10), round(y * 10)  # whole tenths, so that no error adds up
        commands.append(f"{'m' if commands else 'M'}{_tenths(tenth_x - last_x)}{_tenths(tenth_y - last_y, after=True)}{mark_commands}")
        last_x, last_y = tenth_x, tenth_y + sinks * 10
    return commands


def _tenths(count: int, *, after: bool = False) -> str:
    """As short as a path may have it. after: behind another number, from which a space or a sign sets it apart."""
    whole, rest = divmod(abs(count), 10)
    words = f"{whole or ''}.{rest}" if rest else str(whole)
    return f"-{words}" if count < 0 else f" {words}" if after else words


def style_of(index: int) -> tuple[str, str, str]:
    """The colour of the series with this index, the class by which a style sheet colours it, and the shape of its marks."""
    return COLORS[index % len(COLORS)], f"mark-{index % len(COLORS)}", MARKS[index % len(MARKS)]


def short(name: str, most_chars: int = LABEL_CHARS) -> str:
    """A name that fits into a legend."""
    words = one_line(name)
    return words if len(words) <= most_chars else words[: most_chars - 1] + "…"


def width_of(words: str) -> float:
    """About how wide a text is, in pixels."""
    return CHARACTER_PX * len(words)


def _add(parent: ElementTree.Element, tag: str, kind: str, attributes: dict[str, str]) -> ElementTree.Element:
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, {"class": kind, **named})
