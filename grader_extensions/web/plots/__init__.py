"""Draws SVG with the standard library: lines with bands and samples.  Pure.

An SVG of this package has presentation attributes and classes, no `style` and no script, so that it looks the same in a page with a strict
content policy, in a file, and as a picture. Every text is escaped here. Classes (`web/report/static/style.css`) give the colours
of a dark page.
"""
