"""Rewrites CUDA C++ so that g++ compiles it against the emulated device's headers, and says how to call g++.

Only what no macro can express is rewritten: launches, `__shared__`, and, for torch, the questions whether a tensor is on
a GPU.  Every edit keeps its line, so that the compiler's messages name the user's own lines.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from tree_sitter import Node

from grader_extensions.emulated_cuda import block_loops, emulation_limits, ptx_translation
from grader_extensions.emulated_cuda.conditionals import replaced_where_undefined
from grader_extensions.emulated_cuda.emulation_limits import NO_LIBRARIES, LibraryCalls, library_calls
from sandbox.compilers.cuda_tokens import Token, descendants, parse, readable_tree
from sandbox.compilers.steps import Unsupported
from sandbox.protocol.languages import CUDA_SUFFIXES

DEVICE_SUFFIXES = (*CUDA_SUFFIXES, ".cuh")
# Included by device files as well as by those of the host.
HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".inl", ".inc")
NATIVE = Path(__file__).resolve().parent / "native"

# A word of CUDA or torch, and what stands for it on the emulated device.
WORDS = {
    "kCUDA": "kCPU",
    "kCUDAGuardImplKind": "kCPU",
    # libstdc++ writes __attribute__((__noinline__)), so this one cannot be a macro; the lengths are equal.
    "__noinline__": "EMU_NOINLINE",
}
# Members of a tensor or device.  A check that a tensor is NOT on the CPU must keep its meaning too, hence the swap.
MEMBERS = {"is_cuda": "is_cpu", "is_cpu": "is_cuda", "cuda": "cpu"}
# A dispatch key of torch. As above: what is registered for the CPU must not stand in the way of what is for a GPU.
REGISTERS_FOR_KEY = ("TORCH_LIBRARY_IMPL", "STABLE_TORCH_LIBRARY_IMPL")
DISPATCH_KEYS = {"CUDA": "CPU", "CPU": "CUDA", "AutogradCUDA": "AutogradCPU", "AutogradCPU": "AutogradCUDA"}
ASM = ("asm", "__asm__", "__asm")
# What nvcc defines, as names of the same length: torch's own headers and the toolkit's may not see those. Of CUDA 13.0.
COMPILER_MACROS = re.compile(r"\b__(CUDACC|NVCC|CUDACC_VER_(?:MAJOR|MINOR|BUILD))__\b")
MACRO_DEFINITIONS = "".join(
    f"#define EMU_{name}\n" for name in ("CUDACC 1", "NVCC 1", "CUDACC_VER_MAJOR 13", "CUDACC_VER_MINOR 0", "CUDACC_VER_BUILD 0")
)
# Headers of torch include these where nvcc compiles.
BROUGHT_BY_TORCH = {"cuda_bf16.h", "cuda_fp16.h"}
INCLUDES_TORCH = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:torch|ATen|c10)/", re.MULTILINE)
ALIGNMENT = re.compile(rb"\b(?:alignas|__align__|__builtin_align__)\s*\(\s*(\d+)\s*\)")
CLUSTER_DIMS = "__cluster_dims__"
SECOND_BODY = block_loops.SECOND_BODY
# Where a kernel's body begins, these go before all other edits, in this order.
ENTRY_RANK, SECOND_BODY_RANK = -2, -1
OPENING = {"(": ")", "[": "]", "{": "}"}
FUNCTIONS = ("function_definition", "lambda_expression")
BLOCKS = ("compound_statement", "case_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif")
# What has another place or life than a variable of one thread, or is evaluated by the compiler.
OTHER_KINDS = {b"static", b"extern", b"thread_local", b"constexpr", b"constinit", b"__shared__", b"__constant__", b"__device__"}
ENDS = " EMU_LOCAL_ENDS"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the bytes from `start` to `end`; edits of one place apply in the order of their `rank`."""

    start: int
    rank: int
    end: int
    text: bytes


def include_dirs() -> list[str]:
    """Directories that must be searched before those of torch, whose CUDA headers ours replace; the toolkit's open headers come second."""
    open_headers = emulation_limits.open_headers()
    return [str(NATIVE), *([str(open_headers)] if open_headers is not None else [])]


def compile_flags(standard: str = "17") -> list[str]:
    """Flags that every translated file is compiled with, but for `-I`.  `-x c++` is among them: g++ does not know `.cu`.

    Run g++ in the directory of the sources as submitted: its messages then quote the user's own text.
    """
    return [
        # Large frames touch every page, so that they meet the guard of a small stack and do not jump over it.
        # The device's headers have concepts.
        *(f"-std=c++{standard}", "-fconcepts", "-O2", "-fPIC", "-fstack-clash-protection", "-x", "c++", "-pthread"),
        # Loops over the threads of a block (`block_loops.py`) become vectors; sums keep their order.
        *("-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops"),
        # Two artifacts opened in one process must not share the device's state.
        "-fno-gnu-unique",
        # A kernel reads any memory as any type; nvcc never uses that rule against it.
        "-fno-strict-aliasing",
        # An access through null must die where it stands, not be reasoned away.
        "-fno-delete-null-pointer-checks",
        # The device neither traps nor sets errno; host results for finite numbers stay as IEEE says.
        *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
        *("-Wno-unknown-pragmas", "-Wno-attributes"),
    ]


def translate_all(sources: Mapping[str, str], entry: str, *, sanitize: bool = False) -> dict[str, str]:
    """Rewrite the files of a submission. Unsupported where the device can't run them.

    entry: the function that is called from outside. sanitize: for the device's sanitizer."""
    calls = library_calls(sources.values(), entry)
    return {path: translate(source, path, calls, sanitize=sanitize) for path, source in sources.items()}


def translate(source: str, path: str, calls: LibraryCalls = NO_LIBRARIES, *, sanitize: bool = False) -> str:
    """Rewrite one submitted file; `path` is the name that the compiler's messages shall use. calls: those of all files together."""
    code = source.encode()
    every_token = parse(code)
    device = path.endswith(DEVICE_SUFFIXES)
    emulation_limits.check_conditionals(code, path)
    unreached = calls.unreached_bodies(code)
    left_out = [*unreached, *replaced_where_undefined(code, emulation_limits.ARCHITECTURE_MACRO)]
    tokens = [token for token in every_token if not any(start <= token.start < end for start, end in left_out)]
    launches_in_device_code = any(token.text == "<<<" and token.in_device_code for token in tokens)
    readable = not (launches_in_device_code and readable_tree(code).has_error)
    emulation_limits.check(tokens, path, defined=calls.defined, readable=readable)
    edits = [*_words(tokens), *_launches(tokens), *_shared(tokens, path, code), *_entries(tokens, path, code), *_launch_api(tokens)]
    if device:
        edits += _waits(tokens)
    edits += [Edit(start, 1, end, b"{ __builtin_trap(); " + b"\n" * code.count(b"\n", start, end) + b"}") for start, end in unreached]
    headers: set[str] = set()
    may_be_device = path.endswith((*DEVICE_SUFFIXES, *HEADER_SUFFIXES))
    # Asm statements replace all other edits inside them; `headers` gets what their text needs.
    statements = [token for token in tokens if may_be_device and token.text in ASM]
    places = [ptx_translation.asm_replacement(code, token, path, headers, host=not device) for token in statements]
    replacements = [Edit(start, 1, end, text_of_asm) for start, end, text_of_asm in filter(None, places)]
    edits = [edit for edit in edits if not any(asm.start <= edit.start < asm.end for asm in replacements)] + replacements
    if sanitize and may_be_device:
        marks = local_variable_marks(code)
        edits += [_insert(at, text, 1) for at, text in marks if not any(start <= at < end for start, end in unreached)]
    elif device:
        edited = partial(_applied_within, code, [edit for edit in edits if edit.rank != ENTRY_RANK])
        for at, text in block_loops.insertions(code, every_token, path, edited):
            edits.append(_insert(at, text, SECOND_BODY_RANK if text.strip() == SECOND_BODY else 1))
    name = path.replace("\\", "\\\\").replace('"', '\\"')
    # nvcc includes the runtime by itself, before the first line of every .cu file.
    is_source = path.endswith(CUDA_SUFFIXES)
    headers |= BROUGHT_BY_TORCH if is_source and INCLUDES_TORCH.search(source) else set()
    prelude = "#include <cuda_runtime.h>\n" if is_source or headers else ""
    prelude += MACRO_DEFINITIONS if is_source else ""
    prelude += "".join(f"#include <{header}>\n" for header in sorted(headers))
    text = COMPILER_MACROS.sub(r"EMU_\1", _apply(code, edits).decode(errors="surrogateescape"))
    if any(token.text == CLUSTER_DIMS for token in tokens):  # only then is a kernel asked at its launch
        text += f"\n[[maybe_unused]] static const bool emu_clusters_{zlib.crc32(path.encode()):08x} = (::emu::any_cluster = true);\n"
    return f'{prelude}#line 1 "{name}"\n{text}'


def _apply(code: bytes, edits: list[Edit]) -> bytes:
    out, at = [], 0
    for edit in sorted(edits):
        out += [code[at : edit.start], edit.text]
        at = max(at, edit.end)
    out.append(code[at:])
    return b"".join(out)


def _applied_within(code: bytes, edits: list[Edit], begin: int, end: int, replaced: list[tuple[int, int, str]]) -> str:
    """A range of bytes with the edits inside it, and with `replaced` instead of what stands there."""
    inside = [edit for edit in edits if begin <= edit.start < end and not any(start <= edit.start < stop for start, stop, _ in replaced)]
    inside += [Edit(start, 1, stop, text.encode()) for start, stop, text in replaced]
    moved = [Edit(edit.start - begin, edit.rank, edit.end - begin, edit.text) for edit in inside]
    return _apply(code[begin:end], moved).decode(errors="surrogateescape")


def _replace(token: Token, text: str) -> Edit:
    return Edit(token.start, 1, token.end, text.encode())


def _insert(at: int, text: str, rank: int = 0) -> Edit:
    return Edit(at, rank, at, text.encode())


def _words(tokens: list[Token]) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        earlier = [t.text for t in tokens[max(index - 4, 0) : index]]
        before = earlier[-1] if earlier else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text in WORDS:
            yield _replace(token, WORDS[token.text])
        elif token.text in MEMBERS and before in (".", "->") and after == "(":
            yield _replace(token, MEMBERS[token.text])
            if [t.text for t in tokens[max(index - 4, 0) : index - 1]] == ["type", "(", ")"]:
                yield _replace(tokens[index - 4], "device")  # the old properties only know whether they are on a GPU
        elif token.text == "CUDA" and before == "::" and tokens[index - 2].text == "DeviceType":
            yield _replace(token, "CPU")
        elif token.text in DISPATCH_KEYS and (
            (len(earlier) == 4 and earlier[0] in REGISTERS_FOR_KEY and (earlier[1], earlier[3]) == ("(", ","))
            or earlier[-2:] == ["DispatchKey", "::"]
        ):  # in `TORCH_LIBRARY_IMPL(name, KEY, m)`, or behind `DispatchKey::`
            yield _replace(token, DISPATCH_KEYS[token.text])
        elif token.text == '"cuda"' or (token.text.startswith('"cuda:') and token.text[6:-1].isdigit()):
            yield _replace(token, '"cpu"')
        elif token.text == "__forceinline__" and ("inline" in (before, after) or (index > 1 and tokens[index - 2].text == "inline")):
            yield _replace(token, "")  # g++ takes `inline` once only


def _launches(tokens: list[Token]) -> Iterator[Edit]:
    """`f<<<g, b>>>(x)` becomes `::emu::emu_kernel(..., [&](...) { f(emu_args...); }).emu_on(g, b)(x)`, all by insertion."""
    for index, token in enumerate(tokens):
        if token.text == "<<<" and token.callee is not None:
            name = token.callee_text
            opening = f"::emu::emu_kernel(EMU_NAME({name}), [&](const auto&... emu_args) {{ "
            yield _insert(token.callee, opening)
            yield _replace(token, "(emu_args...); }).emu_on(")
            yield _replace(_closing_launch(tokens, index), ")")


def _closing_launch(tokens: list[Token], index: int) -> Token:
    depth = 0
    for token in tokens[index + 1 :]:
        depth += (token.text == "<<<") - (token.text == ">>>")
        if depth < 0:
            return token
    return tokens[index]


def _matching(tokens: list[Token], index: int) -> int:
    """Where the bracket opened at `index` is closed."""
    depth = 0
    for at in range(index, len(tokens)):
        if tokens[at].text in OPENING:
            depth += 1
        elif tokens[at].text in OPENING.values():
            depth -= 1
            if depth == 0:
                return at
    return len(tokens) - 1


def _entries(tokens: list[Token], path: str, code: bytes) -> Iterator[Edit]:
    """Every kernel's body begins with the statement by which the device can ask who it is, and what its cluster is."""
    unread = {index: token for index, token in enumerate(tokens) if token.text == CLUSTER_DIMS}
    for index, token in enumerate(tokens):
        at, entry = index + 1, "EMU_KERNEL_ENTRY"
        while token.text == "__global__" and at < len(tokens) and tokens[at].text not in ("{", ";"):
            if tokens[at].text == CLUSTER_DIMS and tokens[at + 1].text == "(":
                sizes = code[tokens[at + 1].end : tokens[_matching(tokens, at + 1)].start].decode()
                entry = f"EMU_CLUSTER_ENTRY({sizes})"
                unread.pop(at)
            at = _matching(tokens, at) + 1 if tokens[at].text in ("(", "[") else at + 1
        if token.text == "__global__" and at < len(tokens) and tokens[at].text == "{":
            yield _insert(tokens[at].end, f" {entry} ", ENTRY_RANK)
    for token in unread.values():
        raise Unsupported(path, token.line, emulation_limits.CLUSTER)


def _waits(tokens: list[Token]) -> Iterator[Edit]:
    """Insert a turn for other threads into loops that may wait for a volatile.

    `while (flag == 0)` becomes `while (::emu::emu_turn(), flag == 0)`. A `for` is not such a loop where it counts."""
    words = [token.text for token in tokens]
    if not any(pair[1] == "volatile" and pair[0] not in ASM for pair in pairwise(["", *words])):
        return
    for index, token in enumerate(tokens[:-1]):
        if not (token.in_device_code or token.in_macro):
            continue
        if token.text == "goto" and words[index - 1] not in (*ASM, "volatile"):
            yield _insert(token.start, "while (::emu::emu_turn()) ")  # not `if`, for which an `else` may be
        if token.text not in ("while", "for") or words[index + 1] != "(":
            continue
        end = _matching(tokens, index + 1)
        condition = words[index + 2 : end]
        if token.text == "while" and not _declares(condition):
            yield _insert(tokens[index + 1].end, "::emu::emu_turn(), ")
        elif token.text == "for" and condition.count(";") == 2:
            first, second = (at for at, word in enumerate(condition) if word == ";")
            counted = {word for word in condition[:first] if word.isidentifier()}
            if counted.isdisjoint(condition[first:second]) or words[end + 1 : end + 2] == [";"] or words[end + 1 : end + 3] == ["{", "}"]:
                comma = "" if second == first + 1 else ", "
                yield _insert(tokens[index + 2 + first].end, f"::emu::emu_turn(){comma}")


def _declares(condition: list[str]) -> bool:
    """Tell whether a condition declares a variable, as in `while (int i = f())`."""
    before = condition[: condition.index("=")] if "=" in condition else []
    if len(before) < 2 or not before[0].isidentifier() or not before[-1].isidentifier():
        return False
    return before[-2].isidentifier() or before[-2] in ("*", "&", ">")


def _launch_api(tokens: list[Token]) -> Iterator[Edit]:
    """`cudaLaunchKernel((void*)f, ...)` needs f's own type to read the arguments: drop the cast."""
    for index, token in enumerate(tokens):
        if token.text not in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel"):
            continue
        texts = [t.text for t in tokens[index + 1 : index + 7]]
        if texts[:2] == ["(", "("] and "void" in texts:
            close = _matching(tokens, index + 2)
            yield Edit(tokens[index + 2].start, 1, tokens[close].end, b"")


def _shared(tokens: list[Token], path: str, code: bytes) -> Iterator[Edit]:
    places = (index for index, token in enumerate(tokens) if token.text == "__shared__")
    for number, index in enumerate(places, start=1):
        yield from _shared_declaration(tokens, index, number, path, code)


def _declaration_bounds(tokens: list[Token], index: int) -> tuple[int, int] | None:
    """First token of the declaration around `index`, and its semicolon; None for a macro that only names the word."""
    first = index
    while first > 0 and not tokens[first].starts_region and tokens[first - 1].text not in (";", "{", "}", ":", ")"):
        first -= 1
    at = index + 1
    while at < len(tokens) and tokens[at].text != ";":
        if tokens[at].starts_region:
            return None
        at = _matching(tokens, at) + 1 if tokens[at].text in OPENING else at + 1
    return (first, at) if at < len(tokens) else None


def _shared_declaration(tokens: list[Token], index: int, number: int, path: str, code: bytes) -> Iterator[Edit]:
    bounds = _declaration_bounds(tokens, index)
    if bounds is None:
        return
    first, last = bounds
    # The declared names: the identifiers before a `[`, `,` or `;` outside all brackets.
    names, angle, at = [], 0, first
    while at < last:
        text = tokens[at].text
        if text in OPENING:
            at = _matching(tokens, at)
        elif text == "<":
            angle += 1
        elif text == ">":
            angle -= 1
        elif angle == 0 and tokens[at].is_name and tokens[at + 1].text in ("[", ",", ";", "="):
            names.append(tokens[at])
        at += 1
    if not names:
        raise Unsupported(path, tokens[index].line, emulation_limits.ODD_SHARED)
    dynamic = any(token.text == "extern" for token in tokens[first : index + 2])
    match = ALIGNMENT.search(code, tokens[first].start, tokens[last].start)
    alignment = f", {int(match[1])}" if match and int(match[1]) > 16 else ""  # beyond the usual 16 bytes
    if not tokens[index].in_function and not tokens[index].in_macro:
        if not dynamic:
            raise Unsupported(path, tokens[index].line, emulation_limits.GLOBAL_SHARED)
        # Outside a function there is no block to ask: the name becomes a macro that asks where it is used.
        words = [token.text for token in tokens[first:last] if token.text not in ("__shared__", "static", "extern")]
        kind, name = " ".join(words[: words.index(names[0].text)]), names[0].text
        macro = f'\n#define {name} (::emu::emu_dynamic_shared<{kind}[]{alignment}>())\n#line {tokens[last].line} "{path}"\n'
        yield Edit(tokens[first].start, 1, tokens[last].end, macro.encode())
        return
    yield from (_replace(token, "") for token in tokens[first:last] if token.text in ("__shared__", "static", "extern"))
    joined = ", ".join(name.text for name in names)
    if not dynamic:
        yield _insert(tokens[first].start, f"struct emu_shared_{number} {{ ")
        yield _replace(tokens[last], f"; }}; EMU_SHARED(emu_shared_{number}, {joined});")
        return
    for at in range(first, last):  # a typedef takes no alignas; the alignment goes to the memory itself
        if tokens[at].text in ("alignas", "__align__") and tokens[at + 1].text == "(":
            yield Edit(tokens[at].start, 1, tokens[_matching(tokens, at + 1)].end, b"")
    yield _insert(tokens[first].start, "typedef ")
    yield _replace(names[0], f"emu_dynamic_{number}")
    yield _replace(tokens[last], f"; auto& {names[0].text} = ::emu::emu_dynamic_shared<emu_dynamic_{number}{alignment}>();")


def local_variable_marks(code: bytes) -> Iterator[tuple[int, str]]:
    """Yield marks for the sanitizer: where local variables without an initialiser begin and end. No line moves."""
    for node in descendants(readable_tree(code)):
        if node.type != "declaration" or node.parent is None or node.parent.type not in BLOCKS:
            continue
        if not _in_device_code(node) or any(child.text in OTHER_KINDS for child in node.children) or node.has_error:
            continue
        names = [(child.end_byte, name) for child in node.children_by_field_name("declarator") if (name := _declarator_name(child))]
        yield from ((end, ENDS) for end, _ in names)
        begins = [f" EMU_LOCAL_BEGINS({name.decode()})" for _, name in names]
        if begins:
            yield node.end_byte, "".join(begins)


def _in_device_code(node: Node) -> bool:
    """Return whether the outermost function around it is device code, and not evaluated by the compiler."""
    function, at = None, node.parent
    while at is not None:
        function, at = at if at.type in FUNCTIONS else function, at.parent
    if function is None:
        return False
    words = {word for child in function.children if child.type != "compound_statement" for word in (child.text or b"").split()}
    return bool(words & {b"__global__", b"__device__"}) and not words & {b"constexpr", b"consteval"}


def _declarator_name(declarator: Node) -> bytes:
    """The name that a plain declarator declares, or one of an array or a pointer; nothing for all others."""
    at: Node | None = declarator
    while at is not None and at.type in ("array_declarator", "pointer_declarator"):
        at = at.child_by_field_name("declarator")
    return at.text or b"" if at is not None and at.type == "identifier" else b""
