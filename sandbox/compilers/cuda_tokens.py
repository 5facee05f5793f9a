"""Reads CUDA C++ into tokens, macro bodies included.  tree-sitter says what each is; nothing here decides what to change."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

LITERALS = {"string_literal", "raw_string_literal", "char_literal", "system_lib_string"}
DEFINITIONS = {"preproc_def", "preproc_function_def"}
DIRECTIVES = {"preproc_call", "preproc_include", *DEFINITIONS}
CONDITIONALS = {"preproc_if", "preproc_ifdef", "preproc_elif", "preproc_else"}
NAMES = {"identifier", "field_identifier", "type_identifier", "namespace_identifier"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """Surroundings of a piece of source. in_device_code: inside a __global__ or __device__ function that is not for the host too."""

    in_function: bool = False
    in_macro: bool = False
    in_device_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(SourcePosition):
    """Token of the source: its bytes' place, and what the tree knows of its surroundings."""

    text: str
    start: int
    end: int
    line: int
    is_name: bool = False
    starts_region: bool = False  # what stands before belongs to another directive or macro
    include: str | None = None  # the file named, on the token that names it
    callee: int | None = None  # on `<<<`: where the launched function's name starts
    callee_text: str = ""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def syntax_tree(code: bytes) -> Node:
    """The whole tree, of the code as it is."""
    return _parser().parse(code).root_node


def readable_tree(code: bytes) -> Node:
    """The whole tree, of the code with blanks where the grammar would not go on: places are the same, texts may not be."""
    return syntax_tree(_mask_specifiers(code))


def parse(code: bytes) -> list[Token]:
    """All tokens in order, comments left out; a macro's body is parsed as a piece of code of its own."""
    tokens: list[Token] = []
    starts_region = True
    for token in _walk(readable_tree(code), code, 0, 1, SourcePosition()):
        if token is not None:
            tokens.append(replace(token, starts_region=starts_region))
        starts_region = token is None
    return tokens


def _mask_specifiers(code: bytes) -> bytes:
    """Blank what the grammar trips over, byte for byte: `__align__(n)`, and the specifiers of lambdas."""
    masked = bytearray(code)
    for node in leaves(syntax_tree(code)):
        if node.text == b"__align__":
            end = code.find(b")", node.end_byte)
            masked[node.start_byte : end + 1] = b" " * (end + 1 - node.start_byte)
        elif node.text in (b"__device__", b"__host__") and code[: node.start_byte].rstrip().endswith(b"]"):
            masked[node.start_byte : node.end_byte] = b" " * len(node.text)
    return bytes(masked)


def descendants(root: Node) -> Iterator[Node]:
    """The node, and all below it, as one reads them."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def leaves(root: Node) -> Iterator[Node]:
    """The nodes without children at or below a node."""
    return (node for node in descendants(root) if node.child_count == 0)


def _walk(root: Node, code: bytes, offset: int, first_line: int, place: SourcePosition) -> Iterator[Token | None]:
    """Tokens of a tree, None where a directive parts them.  `offset` is where in `code` the tree's text starts."""
    waiting: list[tuple[Node | None, SourcePosition]] = [(root, place)]
    while waiting:
        node, place = waiting.pop()
        if node is None:
            yield None
        elif node.type == "comment" or node.is_missing:
            continue
        elif node.type in DIRECTIVES:
            yield None
            if node.type == "preproc_include":
                if (path := node.child_by_field_name("path")) is not None:
                    yield replace(_token(path, code, offset, first_line, place), include=node_text(path).strip('<>"'))
            elif node.type in DEFINITIONS and (value := node.child_by_field_name("value")) is not None:
                start = offset + value.start_byte
                line = first_line + value.start_point[0]
                yield from _fragment(code[start : offset + value.end_byte], code, start, line, place)
            yield None
        elif node.child_count == 0 or node.type in LITERALS:
            if node.start_byte >= 0 and node.end_byte > node.start_byte:
                yield _token(node, code, offset, first_line, place)
        else:
            inside = enter(node, place)
            children: list[tuple[Node | None, SourcePosition]] = [(child, inside) for child in guarded_nodes(node)]
            if node.type in CONDITIONALS:
                children = [(None, inside), *children, (None, inside)]
            waiting.extend(reversed(children))


def guarded_nodes(node: Node) -> list[Node]:
    """A node's children; of a conditional only what it guards, and of `#if 0` only the other branch."""
    if node.type not in CONDITIONALS:
        return node.children
    condition = condition_of(node)
    guarded = [c for c in node.children if not c.type.startswith("#") and c != condition]
    if condition is not None and condition.text == b"0":
        alternative = node.child_by_field_name("alternative")
        return [alternative] if alternative is not None else []
    return guarded


def condition_of(node: Node) -> Node | None:
    """Return the condition of a conditional; None of everything else, and of `#else`."""
    if node.type not in CONDITIONALS:
        return None
    return node.child_by_field_name("condition") or node.child_by_field_name("name")


def enter(node: Node, place: SourcePosition) -> SourcePosition:
    """The surroundings of what is in a node that has these."""
    if node.type in ("function_definition", "lambda_expression"):
        kinds = {child.type for child in node.children}
        device = "__global__" in kinds or ("__device__" in kinds and "__host__" not in kinds)
        return replace(place, in_function=True, in_device_code=place.in_device_code or device)
    if node.type in ("compound_statement", "ERROR"):
        return replace(place, in_function=True)
    return place


def _fragment(body: bytes, code: bytes, start: int, line: int, place: SourcePosition) -> Iterator[Token | None]:
    """A macro's body: first taken for statements, else for definitions.  `a##b` is one name to the parser."""
    clean = body.replace(b"\\\n", b" \n").replace(b"\\\r\n", b"  \n").replace(b"##", b"__").replace(b"#", b" ")
    clean = _mask_specifiers(clean)
    prefix = b"void f(){"
    statements = syntax_tree(prefix + clean + b";}")
    inside = replace(place, in_macro=True)
    if statements.has_error:
        whole = syntax_tree(clean)
        if not whole.has_error or b"__global__" in clean:
            yield from _walk(whole, code, start, line, inside)
            return
    for token in _walk(statements, code, start - len(prefix), line, inside):
        if token is None or start <= token.start < token.end <= start + len(body):
            yield token


def _token(node: Node, code: bytes, offset: int, first_line: int, place: SourcePosition) -> Token:
    start, end = offset + node.start_byte, offset + node.end_byte
    # `<<<` stands in the arguments of a call.
    call = node.parent.parent if node.type == "<<<" and node.parent is not None else None
    callee = call.child_by_field_name("function") if call is not None else None
    callee_code = b"" if callee is None else code[offset + callee.start_byte : offset + callee.end_byte]
    return Token(
        text=code[start:end].decode(errors="surrogateescape"),
        start=start,
        end=end,
        line=first_line + node.start_point[0],
        is_name=node.type in NAMES,
        callee=None if callee is None else offset + callee.start_byte,
        callee_text=" ".join(callee_code.decode(errors="surrogateescape").replace("\\", " ").split()),
        in_function=place.in_function,
        in_macro=place.in_macro,
        in_device_code=place.in_device_code,
    )


def node_text(node: Node | None) -> str:
    """The source text of a node; "" of None."""
    return "" if node is None else (node.text or b"").decode(errors="surrogateescape")


def launches_in_device_code(code: bytes) -> bool:
    """Return whether a kernel or a device function launches a kernel (dynamic parallelism)."""
    return b"<<<" in code and any(token.text == "<<<" and token.in_device_code for token in parse(code))


def defined_macros(code: bytes) -> Iterator[str]:
    """The names that the code itself defines as macros."""
    return (node_text(node.child_by_field_name("name")) for node in descendants(syntax_tree(code)) if node.type in DEFINITIONS)
