"""What the threads of a kernel read and write that other threads can see, by the names under which they do it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import descendants
from sandbox.compilers.kernel_file import KernelFile, callee, takes_values
from sandbox.compilers.uniform_names import declared_names

ANYTHING = "*"  # memory that has no name here
_HARMLESS = frozenset({b"printf", b"assert", b"__ldg"})
_CASTS = (b"reinterpret_cast<", b"const_cast<", b"dynamic_cast<")
_CHAIN = frozenset({"subscript_expression", "field_expression", "parenthesized_expression", "cast_expression", "pointer_expression"})


@dataclass(frozen=True, slots=True)
class Accesses:
    """Names of arrays and pointers; ANYTHING is all of them."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def conflict_with(self, other: Accesses) -> bool:
        """Whether one may write what the other reads or writes."""
        return _meet(self.writes, other.reads | other.writes) or _meet(other.writes, self.reads)


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    return bool(some and others) and (ANYTHING in some or ANYTHING in others or not some.isdisjoint(others))


class SharedNames:
    """Which names of a kernel stand for memory of all threads."""

    def __init__(self, kernel: Node, body: Node, file: KernelFile) -> None:
        self._harmless, self._variables = file.reading, file.device_variables
        self._shared: set[str] = set()
        self._own: set[str] = set()  # a thread's arrays and objects
        self._pointers, self._read_only = _pointer_parameters(kernel)
        for node in descendants(body):
            if node.type == "declaration":
                shared = any(one.type == "__shared__" for one in descendants(node))
                for one in declared_names(node):
                    pointer = one.declarator.type in ("pointer_declarator", "reference_declarator")
                    (self._shared if shared else self._own if not pointer else set()).add(one.name)
        self._own -= self._shared

    def accesses(self, nodes: Iterable[Node]) -> Accesses:
        """Of these statements."""
        reads, writes = set[str](), set[str]()
        for node in (one for top in nodes for one in descendants(top)):
            for name, written in self._of(node):
                if written:
                    writes.add(name)
                if not written or _is_read_too(node):
                    reads.add(name)
        return Accesses(frozenset(reads), frozenset(writes))

    def _of(self, node: Node) -> Iterable[tuple[str, bool]]:
        """The accesses that this node is by itself: name, and whether it is written."""
        if node.type == "reference_declarator":
            return ((ANYTHING, True),)
        if node.type == "call_expression":
            return self._of_call(node)
        if node.type == "identifier":
            name = (node.text or b"").decode()
            plain = name in self._shared or name in self._variables
            return ((name, _is_written(_outermost(node))),) if plain else ()
        if node.type == "subscript_expression" and not _is_base(node):
            return self._of_base(node, _is_written(_outermost(node)))
        if node.type == "pointer_expression" and (node.text or b"").startswith(b"*"):
            return self._of_base(node, _is_written(_outermost(node)))
        if node.type == "field_expression" and any(child.type == "->" for child in node.children):
            return ((ANYTHING, _is_written(_outermost(node))),)
        return ()

    def _of_base(self, node: Node, written: bool) -> Iterable[tuple[str, bool]]:
        name = _base(node)
        if name is None:
            return ((ANYTHING, written),)
        if name in self._own or name in self._shared:  # a name of shared memory counts where it stands
            return ()
        if name in self._pointers:
            return () if name in self._read_only and not written else ((name, written),)
        return ((ANYTHING, written),)

    def _of_call(self, node: Node) -> Iterable[tuple[str, bool]]:
        function = callee(node)
        if function.startswith(_CASTS) or function in _HARMLESS:
            return ()
        arguments = node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if function.startswith(b"atomic") and given:
            name = _base(given[0])
            return ((name if name is not None and (name in self._shared or name in self._pointers) else ANYTHING, True),)
        return () if takes_values(function, self._harmless) else ((ANYTHING, True),)


def _pointer_parameters(kernel: Node) -> tuple[set[str], set[str]]:
    """The names of pointers, and of those to what is const."""
    declarator = kernel.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    pointers, read_only = set[str](), set[str]()
    for one in parameters.named_children if parameters is not None else []:
        inner = one.child_by_field_name("declarator")
        if inner is None or inner.type != "pointer_declarator":
            continue
        deeper = inner.child_by_field_name("declarator")
        names = [name for name in descendants(inner) if name.type == "identifier"]
        if deeper is not None and deeper.type == "identifier" and names:
            pointers.add((names[0].text or b"").decode())
            if any(child.type == "type_qualifier" and child.text == b"const" for child in one.children):
                read_only.add((names[0].text or b"").decode())
    return pointers, read_only


def _base(node: Node) -> str | None:
    """The identifier that an expression of an address starts from: `a` of `a[i].x`, `&a[i]` and `*(a + i)`."""
    at: Node | None = node
    while at is not None:
        if at.type == "identifier":
            return (at.text or b"").decode()
        if at.type in ("subscript_expression", "field_expression", "pointer_expression"):
            at = at.child_by_field_name("argument")
        elif at.type in ("parenthesized_expression", "cast_expression"):
            at = at.named_children[-1] if at.named_children else None
        elif at.type == "binary_expression":
            at = at.child_by_field_name("left")
        elif at.type == "call_expression" and callee(at).startswith(_CASTS):
            arguments = at.child_by_field_name("arguments")
            at = arguments.named_children[0] if arguments is not None and arguments.named_children else None
        else:
            return None
    return None


def _is_base(node: Node) -> bool:
    """Whether it is only the beginning of a longer subscript."""
    above = node.parent
    return above is not None and above.type == "subscript_expression" and above.child_by_field_name("argument") == node


def _outermost(node: Node) -> Node:
    """The longest chain of subscripts and members that starts here."""
    while (above := node.parent) is not None and above.type in _CHAIN:
        if above.type == "subscript_expression" and above.child_by_field_name("argument") != node:
            break  # it is an index
        node = above
    return node


def _is_written(node: Node) -> bool:
    above = node.parent
    if node.type == "pointer_expression" and (node.text or b"").startswith(b"&"):
        return True  # who has the address may write
    if above is None:
        return False
    left = above.type == "assignment_expression" and above.child_by_field_name("left") == node
    return left or above.type == "update_expression"


def _is_read_too(node: Node) -> bool:
    """Whether what is written is read first, as by `+=`."""
    above = _outermost(node).parent
    return (
        above is None
        or above.type != "assignment_expression"
        or any(child.type.endswith("=") and child.type != "=" for child in above.children)
    )
