"""Finds the local variables of device code that have no initialiser, for the emulated device's sanitizer (`emu/sanitizer/locals.h`)."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import descendants, readable_tree

FUNCTIONS = ("function_definition", "lambda_expression")
BLOCKS = ("compound_statement", "case_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif")
# What has another place or life than a variable of one thread, or is evaluated by the compiler.
OTHER_KINDS = {b"static", b"extern", b"thread_local", b"constexpr", b"constinit", b"__shared__", b"__constant__", b"__device__"}
ENDS = " EMU_LOCAL_ENDS"


def insertions(code: bytes) -> Iterator[tuple[int, str]]:
    """What to insert where, so that the sanitizer knows where each such variable begins and ends. No line moves."""
    for node in descendants(readable_tree(code)):
        if node.type != "declaration" or node.parent is None or node.parent.type not in BLOCKS:
            continue
        if not _in_device_code(node) or any(child.text in OTHER_KINDS for child in node.children) or node.has_error:
            continue
        names = [(child.end_byte, name) for child in node.children_by_field_name("declarator") if (name := _name(child))]
        yield from ((end, ENDS) for end, _ in names)
        begins = [f" EMU_LOCAL_BEGINS({name.decode()})" for _, name in names]
        if begins:
            yield node.end_byte, "".join(begins)


def _in_device_code(node: Node) -> bool:
    """Whether the outermost function around it is device code, and not evaluated by the compiler."""
    function, at = None, node.parent
    while at is not None:
        function, at = at if at.type in FUNCTIONS else function, at.parent
    if function is None:
        return False
    words = {word for child in function.children if child.type != "compound_statement" for word in (child.text or b"").split()}
    return bool(words & {b"__global__", b"__device__"}) and not words & {b"constexpr", b"consteval"}


def _name(declarator: Node) -> bytes:
    """The name that a plain declarator declares, or one of an array or a pointer; nothing for all others."""
    at: Node | None = declarator
    while at is not None and at.type in ("array_declarator", "pointer_declarator"):
        at = at.child_by_field_name("declarator")
    return at.text or b"" if at is not None and at.type == "identifier" else b""
