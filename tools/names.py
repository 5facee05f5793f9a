"""Finds names that say nothing: pronouns and participles as names, docstrings that begin with a pronoun, and class names with two meanings.

`python -m tools.names PATH...` lists the first two in files and folders. `make size` counts them by folder, next to a ceiling.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

# A name says what a value is; none of these does (STYLE.md).
PRONOUNS = frozenset({
    "one", "ones", "found", "which", "asked", "each", "other", "others", "what", "known", "left", "more", "most",
    "kept", "done", "given", "taken", "met", "new", "own", "made", "told", "said", "seen", "held",
})  # fmt: skip
FIRST_WORDS = frozenset({"What", "Whether", "Who", "It", "One"})


def pronoun_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of the assigned names and parameters that are pronouns."""
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else getattr(node, "arg", None)
        if isinstance(node, ast.Name | ast.arg) and name and name.strip("_") in PRONOUNS:
            yield node.lineno, name


def pronoun_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and first line of the docstrings whose first word is in FIRST_WORDS."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = (ast.get_docstring(node) or "").split("\n")[0]
            if text.split(" ")[0].rstrip(",.:'") in FIRST_WORDS:
                yield getattr(node, "lineno", 1), text


def duplicate_classes(modules: Iterable[tuple[Path, ast.Module]]) -> list[str]:
    """Return a line for each class name that two classes have; a leading underscore makes no difference."""
    places = defaultdict(list)
    for path, tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    return [f"class {name} is defined {len(lines)} times: {', '.join(lines)}" for name, lines in sorted(places.items()) if len(lines) > 1]


def main() -> int:
    """Print the pronouns of the paths on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    for root in parser.parse_args().paths:
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            tree = ast.parse(path.read_text())
            for line, text in sorted([*pronoun_names(tree), *pronoun_docstrings(tree)]):
                sys.stdout.write(f"{path}:{line}: {text}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
