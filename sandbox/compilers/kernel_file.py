"""Reads a file's kernels, and which of them may be run as loops over the threads of a block: those whose threads meet at `__syncthreads()`
only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import Token, descendants, readable_tree

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
    | {"preproc_include", "lambda_capture_specifier", "throw_statement", "asm_statement", "gnu_asm_expression", "kernel_call_syntax"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFile:
    """What is the same for all kernels of a file. by_value: functions that change no argument; reading: those that also write no memory
    that other threads see; device_variables: what threads may change outside of a kernel."""

    kernels: tuple[Node, ...]
    by_value: frozenset[bytes]
    reading: frozenset[bytes]
    device_variables: frozenset[str]
    statement_macros: frozenset[bytes]

    def check(self, kernel: Node) -> None:
        """Raise NotPossible where the kernel has a form that is not understood."""
        for node in descendants(kernel):
            if node.type in _FORMS or node.is_error or node.is_missing:
                raise NotPossible(f"a {node.type}")
            if node.type == "return_statement" and node.named_child_count:
                raise NotPossible("a return of a value")
            if node.type in ("identifier", "type_identifier") and node.text in self.statement_macros:
                raise NotPossible("a macro that is a statement")


def read_file(code: bytes) -> KernelFile | None:
    """Read it once; None where a function that is no kernel names `threadIdx` or a barrier, as any kernel may call it."""
    nodes = list(descendants(readable_tree(code)))
    kernels = [node for node in nodes if node.type == "function_definition" and any(child.type == "__global__" for child in node.children)]
    inside = [(kernel.start_byte, kernel.end_byte) for kernel in kernels]
    meeting = [node for node in nodes if node.type == "identifier" and node.text in (b"threadIdx", b"__syncthreads")]
    if not all(any(begin <= node.start_byte < end for begin, end in inside) for node in meeting):
        return None
    declared = (node for node in nodes if node.type == "declaration" and _is_of_device(node))
    variables = frozenset(name for node in declared for name in names_in(node))
    by_value, reading = _functions(nodes, {name.encode() for name in variables})
    return KernelFile(
        kernels=tuple(kernels),
        by_value=_OF_NUMBERS | _ATOMICS | by_value,
        reading=_OF_NUMBERS | reading,
        device_variables=variables,
        statement_macros=frozenset(match[1] for match in _MACRO.finditer(code) if _STATEMENT.search(match[2])),
    )


def names_in(node: Node) -> Iterator[str]:
    """Every identifier in it, as often as it stands there."""
    for one in descendants(node):
        if one.type == "identifier" and one.text is not None:
            yield one.text.decode()


def identifier_places(node: Node) -> dict[str, list[int]]:
    """Where each identifier stands in it, in order."""
    found: dict[str, list[int]] = {}
    for one in descendants(node):
        if one.type == "identifier" and one.text is not None:
            found.setdefault(one.text.decode(), []).append(one.start_byte)
    return {name: sorted(places) for name, places in found.items()}


def callee(call: Node) -> bytes:
    """What is called, as it is written."""
    function = call.child_by_field_name("function")
    return (function.text or b"") if function is not None else b""


def takes_values(function: bytes, by_value: frozenset[bytes]) -> bool:
    """Whether a function, written with its template arguments, is one of `by_value`, or a cast of a number."""
    name, _, arguments = function.partition(b"<")
    return name.strip() in by_value or (name == b"static_cast" and arguments != b"")


def _is_of_device(declaration: Node) -> bool:
    return any(child.type in ("__device__", "__managed__") for child in descendants(declaration))


def _functions(nodes: Sequence[Node], variables: set[bytes]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Functions of the file that change no argument, and those that also write no memory: by all their declarations."""
    values, const = dict[bytes, bool](), dict[bytes, bool]()
    for node in nodes:
        name, parameters = node.child_by_field_name("declarator"), node.child_by_field_name("parameters")
        if node.type != "function_declarator" or name is None or parameters is None:
            continue
        key, texts = name.text or b"", [one.text or b"" for one in parameters.named_children]
        values[key] = values.get(key, True) and not any(b"&" in text or b"..." in text for text in texts)
        pointers = [text for text in texts if b"*" in text or b"[" in text or b"auto" in text]
        const[key] = const.get(key, True) and values[key] and all(re.search(rb"\bconst\b", text.partition(b"*")[0]) for text in pointers)
    called: dict[bytes, set[bytes]] = {}
    for node in nodes:
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        if name is None or name.text is None:
            continue
        inside = list(descendants(node))
        if any(one.type == "__shared__" or (one.type == "identifier" and one.text in variables) for one in inside):
            const[name.text] = False
        calls = (callee(one) for one in inside if one.type == "call_expression")
        called.setdefault(name.text, set()).update(one for one in calls if not one.startswith(b"reinterpret_cast<const"))
    changed = True
    while changed:  # a function that calls one which writes is no better
        writing = [one for one, calls in called.items() if const.get(one) and not all(_writes_nothing(call, const) for call in calls)]
        const |= dict.fromkeys(writing, False)
        changed = bool(writing)
    return frozenset(name for name, good in values.items() if good), frozenset(name for name, good in const.items() if good)


def _writes_nothing(call: bytes, known: dict[bytes, bool]) -> bool:
    return takes_values(call, _OF_NUMBERS) or known.get(call, False)


# Functions of CUDA that take numbers by value, and pointers to read from.
_OF_NUMBERS = frozenset(
    b"min max fmaf fma fmaxf fminf fmax fmin expf __expf exp exp2f exp2 sqrtf rsqrtf rsqrt tanhf tanh logf __logf log log2f powf pow "
    b"fabsf fabs abs __ldg __ldcg __fdividef make_float2 make_float3 make_float4 make_int2 make_int4 make_half2 __half2float "
    b"__float2half __float2half_rn __bfloat162float __float2bfloat16 __fmaf_rn __fadd_rn __fmul_rn floorf ceilf roundf truncf rintf "
    b"erff erfcf sinf cosf sqrt printf assert sizeof isnan isinf signbit copysignf fmodf __float2int_rn __int_as_float "
    b"__float_as_int int float double unsigned long bool size_t int64_t uint32_t int32_t uint64_t".split()
)
_ATOMICS = frozenset({b"atomicAdd", b"atomicMax", b"atomicMin", b"atomicSub", b"atomicAnd", b"atomicOr", b"atomicXor"})
