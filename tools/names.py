"""Checks the names and texts of the product: class names are unique, and no word of a private dialect is used.

`python -m tools.names` prints what it finds and ends with 1 where that is anything. Words are looked for in the names of modules, classes,
functions and arguments, in help texts, docstrings, and the texts of errors.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("grader", "sandbox")
GENERATED = "v1"
# Compared with the parts of names in snake_case and CamelCase (STYLE.md).
NAME_WORDS = frozenset(
    (
        "told",
        "said",
        "says",
        "whose",
        "lately",
        "beside",
        "mend",
        "mended",
        "heeded",
        "luck",
        "unlucky",
        "faint",
        "discreet",
        "levelled",
        "shaken",
    )
)
# Phrases of texts, and those of docstrings too.
TEXT_WORDS = re.compile(r"\b(?:nobody(?![:/])|is told|are told|was told)\b", re.IGNORECASE)
ALL_WORDS = re.compile(r"\b(?:whoever|beside|mend|mends|mended|lately|says so|did not do|told apart|told otherwise)\b", re.IGNORECASE)


Module = tuple[Path, ast.Module]


def modules() -> Iterator[Module]:
    """Every module of the product, less what is generated."""
    for half in PRODUCT:
        for path in sorted((ROOT / half).rglob("*.py")):
            if GENERATED not in path.parts:
                yield path.relative_to(ROOT), ast.parse(path.read_text())


def duplicate_classes(among: Iterable[Module] | None = None) -> list[str]:
    """Class names that more than one class of the product has; a leading underscore does not make a name another one."""
    found = defaultdict(list)
    for path, tree in modules() if among is None else among:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    return [
        f"class {name} is defined {len(places)} times: {', '.join(places)}" for name, places in sorted(found.items()) if len(places) > 1
    ]


def parts(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return [one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def banned_names(among: Iterable[Module] | None = None) -> list[str]:
    """Names with a word of NAME_WORDS."""
    found = []
    for path, tree in modules() if among is None else among:
        named = [(1, path.stem)]
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                named.append((node.lineno, node.name))
            elif isinstance(node, ast.arg):
                named.append((node.lineno, node.arg))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                named.append((node.lineno, node.id))
        found += [f"{path}:{line}: {name}: avoid {word!r}" for line, name in named for word in parts(name) if word in NAME_WORDS]
    return sorted(set(found))


def banned_texts(among: Iterable[Module] | None = None) -> list[str]:
    """Strings of the product with a phrase of ALL_WORDS; those that are no docstrings also with one of TEXT_WORDS."""
    found = []
    for path, tree in modules() if among is None else among:
        documented = {id(one.value) for node in ast.walk(tree) for one in _statements(node)}
        if "cli" in path.parts or "commands" in path.parts:
            documented = set()  # docstrings of commands are their help
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = (ALL_WORDS,) if id(node) in documented else (ALL_WORDS, TEXT_WORDS)
                found += [
                    f"{path}:{node.lineno}: {match[0]!r} in {node.value[:80]!r}" for one in words for match in one.finditer(node.value)
                ]
    return found


def _statements(node: ast.AST) -> list[ast.Expr]:
    body = getattr(node, "body", ())
    return [one for one in body if isinstance(one, ast.Expr)] if isinstance(body, list) else []


def main() -> int:
    """Print the findings."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = [*duplicate_classes(), *banned_names(), *banned_texts()]
    for line in found:
        sys.stdout.write(line + "\n")
    sys.stdout.write(f"{len(found)} findings\n" if found else "no duplicate class name, no banned word\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
