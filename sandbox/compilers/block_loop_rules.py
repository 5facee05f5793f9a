"""Which files and kernels may be run as loops over the threads of a block: those whose threads meet at `__syncthreads()` only."""

from __future__ import annotations

import re
from pathlib import Path

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import Token, descendants

_NATIVE = Path(__file__).resolve().parent.parent / "native" / "emulated"
# Names by which threads of a warp, block or grid meet in another way, or wait for each other; and what depends on who runs when.
_MEETS = re.compile(
    r"__sync(?!threads$)\w*|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__match\w*|__reduce\w*|__nanosleep|__threadfence\w*"
    r"|__pipeline\w*|__cluster\w*|atomic(?:CAS|Exch|Inc|Dec)\w*|asm|__asm__|__asm|volatile|cooperative_groups|cub|nvcuda|wmma"
    r"|__trap|__brkpt|setjmp|longjmp|co_await|co_yield"
)
_HEADERS = ("cooperative_groups", "cub/", "thrust/", "mma.h", "cuda/", "cuda_pipeline", "cuda_awbarrier")
_FORMS = frozenset(
    {"goto_statement", "labeled_statement", "try_statement", "ERROR", "preproc_if", "preproc_ifdef", "preproc_def", "preproc_function_def"}
    | {"preproc_include", "lambda_capture_specifier", "throw_statement", "asm_statement", "gnu_asm_expression"}
)
_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_STATEMENT = re.compile(rb"[{};]|\b(?:return|for|if|else|while|do|switch|case|break|continue|goto|__syncthreads|threadIdx)\b")


class NotPossible(Exception):
    """This kernel cannot be run so; the argument says why."""


def file_allows(code: bytes, tokens: list[Token]) -> bool:
    """Whether nothing in the file lets threads meet but `__syncthreads()` in a kernel's own body."""
    if b"__global__" not in code:
        return False
    for at, token in enumerate(tokens):
        before, after = tokens[at - 1].text if at else "", tokens[at + 1].text if at + 1 < len(tokens) else ""
        if _MEETS.fullmatch(token.text) or (token.text == "cuda" and after == "::" and before != "::"):
            return False
        if token.include is not None and not _is_plain(token):
            return False
        if token.text in ("__syncthreads", "threadIdx") and (token.in_macro or not token.in_function):
            return False
        if token.text.startswith("atomic") and before not in (";", "{", "}", ")"):
            return False  # its result could be waited for
    return True


def _is_plain(token: Token) -> bool:
    """A header whose text is known to hold no such function: the device's own, or a system's."""
    assert token.include is not None
    if token.text.startswith('"'):
        return (_NATIVE / token.include).is_file()
    return not token.include.startswith(_HEADERS)


def kernel_allows(kernel: Node, code: bytes) -> None:
    """Raise NotPossible where the kernel has a form that is not understood. A function of the file that names `threadIdx` or a barrier
    is one, whichever kernel calls it."""
    root = kernel
    while root.parent is not None:
        root = root.parent
    for node in descendants(root):
        if node.type == "identifier" and node.text in (b"threadIdx", b"__syncthreads") and not _in_kernel(node):
            raise NotPossible("threads meet, or are asked for, outside of kernels")
    macros = {match[1] for match in _MACRO.finditer(code) if _STATEMENT.search(match[2])}
    for node in descendants(kernel):
        if node.type in _FORMS or node.is_error or node.is_missing:
            raise NotPossible(f"a {node.type}")
        if node.type == "return_statement" and node.named_child_count:
            raise NotPossible("a return of a value")
        if node.type in ("identifier", "type_identifier") and node.text in macros:
            raise NotPossible("a macro that is a statement")


def _in_kernel(node: Node) -> bool:
    at: Node | None = node
    while at is not None:
        if at.type == "function_definition" and any(child.type == "__global__" for child in at.children):
            return True
        at = at.parent
    return False
