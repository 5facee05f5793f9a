"""The constants that a Python file assigns at its top level, and the file with other values for some of them.  Executes nothing.

Only the assignments change: comments, line numbers and everything else stay as they are, and what is computed from a constant follows.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SHOWN_CHARS = 40  # of a value in a message
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class NotALiteral(ValueError):
    """A value that is not a number, a string, True, False, None, or a tuple or list of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assignment:
    """One place where a constant gets its value. own: the expression is this name's alone; else the value is set after the statement."""

    name: str
    value: ast.expr
    statement: ast.stmt
    own: bool

    def edit(self, value: str) -> tuple[int, int, int, int, str]:
        """What to write where: the first line and byte, the last line and byte, and the text."""
        if self.own:
            assert self.value.end_lineno is not None and self.value.end_col_offset is not None
            return self.value.lineno, self.value.col_offset, self.value.end_lineno, self.value.end_col_offset, value
        assert self.statement.end_lineno is not None and self.statement.end_col_offset is not None
        line, column = self.statement.end_lineno, self.statement.end_col_offset
        return line, column, line, column, f"; {self.name} = {value}"


def literal(text: str) -> str:
    """A value as it is written into a file, on one line. NotALiteral where it would have to be computed."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        ast.literal_eval(tree)
        return ast.unparse(tree)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NotALiteral(f"{text!r} is not a literal; write a number, True, False, a string in quotes, or a tuple of these") from None


def constants(source: str) -> dict[str, str]:
    """The names that can be set, with the text of their values. Raises what `ast.parse` raises."""
    return {one.name: _shown(one.value) for one in _assignments(ast.parse(source))}


def with_constants(source: str, values: Mapping[str, str]) -> str:
    """The source with these values (as `literal` writes them) for constants that it assigns; other names are ignored."""
    lines = source.encode().split(b"\n")
    edits = [one.edit(values[one.name]) for one in _assignments(ast.parse(source)) if one.name in values]
    for line, begin, last_line, end, text in sorted(edits, reverse=True):  # from the end, so that earlier positions stay right
        joined = lines[line - 1][:begin] + text.encode() + lines[last_line - 1][end:]
        lines[line - 1 : last_line] = [joined]
    return b"\n".join(lines).decode()


def _assignments(tree: ast.Module) -> list[_Assignment]:
    """The assignments of names that nothing else in the module's own scope binds, such as a loop or an import."""
    found = [one for statement in tree.body for one in _assigned(statement)]
    here, bound = Counter(one.name for one in found), Counter(_bound(tree))
    return [one for one in found if here[one.name] == bound[one.name]]


def _assigned(statement: ast.stmt) -> Iterator[_Assignment]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield _Assignment(name=name, value=value, statement=statement, own=True)
        case ast.Assign(
            targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)], value=ast.Tuple(elts=values) | ast.List(elts=values)
        ) if len(targets) == len(values) and not any(isinstance(one, ast.Starred) for one in (*targets, *values)):
            for target, value in zip(targets, values, strict=True):
                if isinstance(target, ast.Name):
                    yield _Assignment(name=target.id, value=value, statement=statement, own=True)
        case ast.Assign(targets=targets, value=value):
            for node in (inner for target in targets for inner in ast.walk(target)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield _Assignment(name=node.id, value=value, statement=statement, own=False)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every binding of a name in the module's own scope."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.split(".")[0]
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _shown(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."
