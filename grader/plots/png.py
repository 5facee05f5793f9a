"""Turns an SVG of this package into a PNG.  Needs the extra `png`: only `grader/cli/extras.py` imports this.

The font is a file of this package. Without one, text would vanish silently on machines that have no fonts, such as slim containers.
"""

from __future__ import annotations

from pathlib import Path

import resvg_py

FONT_FILE = Path(__file__).with_name("fonts") / "DejaVuSans.ttf"
FONT_FAMILY = "DejaVu Sans"
ZOOM = 2.0  # 1280 pixels wide: sharp on dense displays


def to_png(drawing: str) -> bytes:
    """The picture on white, at twice its size in pixels. ValueError where it is not an SVG."""
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=drawing.replace("currentColor", "#222222"),
            background="#ffffff",
            skip_system_fonts=True,
            font_files=[str(FONT_FILE)],
            font_family=FONT_FAMILY,
            sans_serif_family=FONT_FAMILY,
            zoom=ZOOM,
        )
    )
