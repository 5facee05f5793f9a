"""Counts lines, modules, words and pronoun names of the repository by folder, next to the ceilings of `ceilings.toml`.

`python -m tools.size` prints the tables. `--check` ends with 1 where a figure is above its ceiling.
`--lower` lowers the ceilings to today's figures.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.names import pronoun_docstrings, pronoun_names
from tools.page import ROOT

CEILINGS = ROOT / "ceilings.toml"
PRODUCT = ("grader", "sandbox", "grader_extensions", "tools", "examples", "deploy")
CODE = frozenset({".py", ".pyi", ".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"})


def tracked() -> Iterator[Path]:
    """Yield the files that git tracks or would add, less generated code."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in sorted(set(listed.stdout.split("\0"))):
        path = Path(name)
        if name and "v1" not in path.parts and (ROOT / path).is_file():
            yield path


def folder(path: Path) -> str:
    """Return the folder that a file is counted in: two levels of product and tests, else the first."""
    depth = 2 if path.parts[0] in ("grader", "sandbox", "grader_extensions", "tests") and len(path.parts) > 2 else 1
    return "/".join(path.parts[: min(depth, len(path.parts) - 1)]) or "."


def count() -> dict[str, Counter[str]]:
    """Return the figures of LIMITED, by kind and folder."""
    figures: dict[str, Counter[str]] = defaultdict(Counter)
    for path in tracked():
        if path.suffix == ".md" and "tests" not in path.parts:
            figures["words"][folder(path)] += len((ROOT / path).read_text().split())
        if path.suffix not in CODE or path.parts[0] not in (*PRODUCT, "tests"):
            continue
        text, is_test = (ROOT / path).read_text(), "tests" in path.parts
        figures["tests" if is_test else "lines"][folder(path)] += text.count("\n")
        if path.suffix == ".py":
            tree = ast.parse(text)
            figures["modules"][folder(path)] += not is_test
            figures["test_pronouns" if is_test else "pronouns"][folder(path)] += len([*pronoun_names(tree), *pronoun_docstrings(tree)])
    return figures


LIMITED = {
    "lines": "Product: lines of Python and C++",
    "modules": "Python modules",
    "pronouns": "Names and docstrings that `python -m tools.names` lists",
    "tests": "Tests: lines of Python and CUDA",
    "test_pronouns": "Tests: names and docstrings that `python -m tools.names` lists",
    "words": "Documents: words",
}


def show(figures: dict[str, Counter[str]], ceilings: dict[str, dict[str, int]]) -> None:
    """Print each table of figures next to its ceilings, and the sum of the product."""
    for kind, title in LIMITED.items():
        sys.stdout.write(f"{title}\n")
        for name in sorted(set(+figures[kind]) | set(ceilings.get(kind, {}))):
            sys.stdout.write(f"  {name:32} {figures[kind][name]:7,} of {ceilings.get(kind, {}).get(name, 0):7,}\n")
        sys.stdout.write(f"  {'all':32} {figures[kind].total():7,} of {sum(ceilings.get(kind, {}).values()):7,}\n\n")
    product = sum(value for name, value in figures["lines"].items() if name not in ("deploy", "examples"))
    sys.stdout.write(f"grader, sandbox and tools: {product:,} lines of Python and C++\n")


def excesses(figures: dict[str, Counter[str]], ceilings: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence for each figure above its ceiling; a folder without a ceiling has the ceiling 0."""
    return [
        f"{LIMITED[kind]}: {name} has {value:,}, its ceiling is {ceilings.get(kind, {}).get(name, 0):,}; delete as much, or raise the"
        f" ceiling in {CEILINGS.name} in a commit of its own that says why"
        for kind in LIMITED
        for name, value in sorted(figures[kind].items())
        if value > ceilings.get(kind, {}).get(name, 0)
    ]


def write(limits: dict[str, dict[str, int]]) -> None:
    """Write the ceilings' file."""
    text = "# Ceilings of `make size`. `python -m tools.size --lower` lowers them; raising one needs a commit of its own that says why.\n"
    for kind, title in LIMITED.items():
        rows = "".join(f'"{name}" = {value}\n' for name, value in sorted(limits[kind].items()) if value)
        text += f"\n# {title}.\n[{kind}]\n{rows}"
    CEILINGS.write_text(text)


def main() -> int:
    """Print or check the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="print the figures above their ceilings, and end with 1 if there are any")
    action.add_argument("--lower", action="store_true", help="lower the ceilings to today's figures")
    options = parser.parse_args()
    figures = count()
    ceilings: dict[str, dict[str, int]] = tomllib.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
    if options.lower:
        for kind, counts in figures.items():
            limits = ceilings.get(kind, counts)
            ceilings[kind] = {name: min(value, limits.get(name, 0)) for name, value in counts.items()}
        write(ceilings)
        return 0
    if options.check:
        lines = excesses(figures, ceilings)
        sys.stdout.write("".join(f"{line}\n" for line in lines) or "every figure is within its ceiling\n")
        return 1 if lines else 0
    show(figures, ceilings)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
