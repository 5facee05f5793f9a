"""Draws the imports between the folders of the product, as a Mermaid diagram and a table: docs/imports.md.

`python -m tools.imports` writes the page, `--check` ends with 1 where it is out of date. A module next to the folders is drawn by its own
name. An arrow that points up, or a cycle, is an error.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "imports.md"
PRODUCT = ("grader", "sandbox")


def folder_of(module: str) -> str:
    """The folder that a module belongs to: `grader.ledger` of grader.ledger.queue."""
    return ".".join(module.split(".")[:2])


def imports(root: Path = ROOT) -> dict[str, set[str]]:
    """Each folder's imports of other folders. What is only needed for types does not count."""
    found: dict[str, set[str]] = defaultdict(set)
    for half in PRODUCT:
        for path in sorted((root / half).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            own = folder_of(module)
            if own == half:
                continue
            found[own] |= {one for one in map(folder_of, _imported(ast.parse(path.read_text()), root)) if one not in (own, *PRODUCT)}
    return dict(found)


def _imported(tree: ast.AST, root: Path) -> list[str]:
    names = []
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = root.joinpath(*node.module.split(".")).is_dir()
            names += [f"{node.module}.{one.name}" if inside else node.module for one in node.names]
    return [one for one in names if one.split(".")[0] in PRODUCT]


def _executed(tree: ast.AST) -> list[ast.AST]:
    found, left = [], [tree]
    while left:
        node = left.pop()
        found.append(node)
        typing_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        left += node.orelse if typing_only and isinstance(node, ast.If) else list(ast.iter_child_nodes(node))
    return found


def page(among: dict[str, set[str]]) -> str:
    """The page; raises CycleError where imports go round."""
    order = list(reversed(list(TopologicalSorter({own: sorted(among[own]) for own in sorted(among)}).static_order())))
    arrows = sum(len(one) for one in among.values())
    lines = [
        "# Imports between folders",
        "",
        "Written by `python -m tools.imports`; a test compares it with the code. Every folder imports only folders below it in the table.",
        f"{len(order)} folders and modules, {arrows} arrows, no cycle.",
        "",
        "```mermaid",
        "flowchart TD",
        *(f"    {own} --> {other}" for own in order for other in sorted(among.get(own, ()))),
        "```",
        "",
        "| folder | imports |",
        "| --- | --- |",
        *(f"| `{own}` | {', '.join(f'`{one}`' for one in sorted(among.get(own, ()))) or 'nothing'} |" for own in order),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 where the page is out of date")
    check = parser.parse_args().check
    try:
        text = page(imports())
    except CycleError as error:
        sys.stderr.write(f"imports go round: {' -> '.join(error.args[1])}; move what both need below both\n")
        return 1
    if check and (not PAGE.is_file() or PAGE.read_text() != text):
        sys.stderr.write(f"{PAGE.relative_to(ROOT)} is out of date; run `python -m tools.imports`\n")
        return 1
    if not check:
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
