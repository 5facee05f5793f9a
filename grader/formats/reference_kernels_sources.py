"""What the files of a reference_kernels problem say of themselves, from their syntax: names, imports, tolerance.  Executes nothing."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from grader.errors import ProblemInvalid
from sandbox.protocol import wire

REFERENCE, PUBLIC = "reference.py", ("task.py", "utils.py")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-8}  # make_match_reference's own
LARGEST_TOLERANCE = 1e300  # for a number that no float holds


def parsed_file(path: Path, text: str) -> ast.Module:
    """The syntax of a file. Raises ProblemInvalid."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise ProblemInvalid(str(path), f"{line}is not Python: {error}; fix it") from None


def public(trees: Mapping[str, ast.Module]) -> list[str]:
    """The names of the files that a submission may import: of PUBLIC those that there are, and what they import."""
    found, waiting = set[str](), [name for name in PUBLIC if name in trees]
    while waiting:
        name = waiting.pop()
        if name != REFERENCE and name not in found:
            found.add(name)
            waiting += [other for other in trees if other.removesuffix(".py") in _imported(trees[name])]
    return sorted(found)


def _imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports anywhere in it, without what follows a dot."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported):
                names |= {one.name.partition(".")[0] for one in imported}
            case ast.ImportFrom(module=str() as name, level=0):
                names.add(name.partition(".")[0])
    return names


def defined(tree: ast.Module) -> set[str]:
    """The names that a file defines at its top level."""
    names = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {one.id for one in targets if isinstance(one, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names |= {one.asname or one.name for one in imported}
    return names


def tolerance(tree: ast.Module) -> wire.Tolerance:
    """What `check_implementation = make_match_reference(ref_kernel, rtol=..., atol=...)` says, to be shown; the check itself decides."""
    found = dict(TOLERANCE)
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="check_implementation")], value=ast.Call(keywords=keywords)):
                for one in keywords:
                    if one.arg in found and isinstance(one.value, ast.Constant) and isinstance(one.value.value, (int, float)):
                        found[one.arg] = min(max(one.value.value, 0), LARGEST_TOLERANCE) * 1.0
    return wire.Tolerance(rtol=found["rtol"], atol=found["atol"], budget_factor=None)
