"""Which functions of a submission never run, so that they may call libraries that the emulated device lacks.

A published kernel often stands in one file with a `main` that compares it with cuBLAS.  Nothing calls that `main` here.  Decides by names
alone: a function never runs where no name leads to it from the entry, from a macro, or from what stands outside functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import NAMES, defined_macros, descendants, readable_tree
from sandbox.compilers.emulation_libraries import HOST_LIBRARIES, called

_LIBRARY = re.compile("|".join(HOST_LIBRARIES))
_WORD = re.compile(rb"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCalls:
    """own: what the sources themselves define, whatever its name begins with. unreached: the functions that never run."""

    own: frozenset[str] = frozenset()
    unreached: frozenset[str] = frozenset()

    def is_foreign(self, name: str) -> bool:
        """Whether a call of this name is one of a library that the emulated device lacks."""
        return name not in self.own and called(name) is not None

    def unreached_bodies(self, code: bytes) -> list[tuple[int, int]]:
        """The bytes between braces, braces included, of a source's functions that never run and call a library."""
        functions = [one for one in _functions(readable_tree(code)) if one.name in self.unreached] if self.unreached else []
        return [(one.body.start_byte, one.body.end_byte) for one in functions if any(map(self.is_foreign, one.names))]


NO_LIBRARIES = LibraryCalls()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """name: "" of one that can run without being named, such as a destructor."""

    name: str
    body: Node
    names: frozenset[str]


def library_calls(sources: Iterable[str], entry: str) -> LibraryCalls:
    """Read all sources of a submission; entry: the function that is called from outside. Where they do not have it, everything may run."""
    codes = [source.encode() for source in sources]
    if not any(_LIBRARY.search(code.decode(errors="surrogateescape")) for code in codes):
        return LibraryCalls()
    functions: list[_Function] = []
    outside: set[str] = set()
    macros: set[str] = set()
    for code in codes:
        root = readable_tree(code)
        functions += _functions(root)
        outside |= _names(_outside_functions(root))
        macros |= set(defined_macros(code))
    bodies: dict[str, set[str]] = {}
    for one in functions:
        bodies.setdefault(one.name, set()).update(one.names)
    own = frozenset({*bodies, *macros} - {""})
    known = any(entry in names for names in (outside, *bodies.values()))
    return LibraryCalls(own=own, unreached=frozenset(bodies) - _reached(bodies, {*outside, entry}) - {""} if known else frozenset())


def _reached(bodies: Mapping[str, set[str]], outside: set[str]) -> set[str]:
    """What these names lead to, by the bodies of functions; a function without a name is reached in any case."""
    reached, waiting = set(), outside | bodies.get("", set())
    while waiting:
        reached |= waiting
        waiting = set().union(*(bodies.get(name, ()) for name in waiting)) - reached
    return reached


def _functions(root: Node) -> Iterator[_Function]:
    """Every function with a body that stands in no other function."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        body = _body(node)
        if body is None:
            waiting.extend(node.children)
        else:
            yield _Function(name=_name(node), body=body, names=frozenset(_names(descendants(node))))


def _name(function: Node) -> str:
    """What a call names; "" of an operator, a destructor and what is exported to C, which others call."""
    at = function.child_by_field_name("declarator")
    while at is not None and at.type not in NAMES:
        inner = at.child_by_field_name("declarator") or at.child_by_field_name("name")
        at = inner if inner is not None else next((child for child in at.named_children if child.type.endswith("_declarator")), None)
    above = function.parent  # `extern "C" void f() {}`, or a block of such functions
    exported = above is not None and "linkage_specification" in (above.type, above.parent.type if above.parent is not None else "")
    return "" if at is None or exported else _text(at)


def _outside_functions(root: Node) -> Iterator[Node]:
    """What stands in no function, and the bodies of all macros."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if _body(node) is not None:
            yield from (one for one in descendants(node) if one.type == "preproc_arg")
        else:
            yield node
            waiting.extend(node.children)


def _body(node: Node) -> Node | None:
    """That of a function; None of everything else, and of a function without braces."""
    body = node.child_by_field_name("body") if node.type == "function_definition" else None
    return body if body is not None and body.type == "compound_statement" else None


def _names(nodes: Iterable[Node]) -> set[str]:
    """All names among these, those in the bodies of macros too."""
    found = (_WORD.findall(node.text or b"") for node in nodes if node.type == "preproc_arg" or node.type in NAMES)
    return {word.decode() for words in found for word in words}


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="surrogateescape")
