"""Compares the parameters of a raw CUDA entry with what the problem calls it with.

Nothing checks them when it is called: a `const double*` that is given float32 reads other numbers. Only a clear contradiction is
remarked. A source may cast, and a type that is not known here may be the right one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import syntax_tree
from sandbox.protocol.signatures import C_TYPES, cuda_parameters
from sandbox.protocol.wire import EntryCall, TensorSpec

# Kind and size in bytes of what C++ calls so; integers whatever their sign.
_INTEGERS = {1: "int8_t uint8_t char bool", 2: "short int16_t uint16_t", 4: "int signed unsigned int32_t uint32_t"}
_INTEGERS[8] = "long int64_t uint64_t size_t ssize_t ptrdiff_t intptr_t uintptr_t"
_TYPES = {name: ("integer", size) for size, names in _INTEGERS.items() for name in names.split()}
_TYPES |= {"float": ("float", 4), "double": ("float", 8), "half": ("float", 2), "__half": ("float", 2)}
_TYPES |= dict.fromkeys(("__nv_bfloat16", "nv_bfloat16"), ("bfloat", 2))
# By torch's name.
_DTYPES = {name: _TYPES[written] for name, written in C_TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """Parameter as it is written. type: kind and size, None where that is not known; depth: of pointers, None in any other form."""

    text: str
    line: int
    type: tuple[str, int] | None
    depth: int | None
    is_const: bool


def remarks(entry: str, call: EntryCall, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the contradiction between the problem and the one definition of the entry; none where it may be right, or can't be read."""
    definitions = [(path, *item) for path, text in sources.items() if entry in text for item in _definitions(text, entry)]
    if len(definitions) != 1 or any(item.dtype not in _DTYPES for item in (*call.inputs, *call.outputs)):
        return ()
    path, line, parameters = definitions[0]
    faults = list(_faults(parameters, call))
    if not faults:
        return ()
    at, sentence = faults[0]
    rest = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return (f"{path}:{at or line}: {sentence}{rest}; the problem calls void {entry}({cuda_parameters(call)})",)


def _faults(parameters: Sequence[_Parameter], call: EntryCall) -> Iterator[tuple[int, str]]:
    """Contradictions, each with its line; 0: that of the entry."""
    tensors = [*call.inputs, *call.outputs]
    argument_count = len(tensors) + len(call.axes)
    if not len(tensors) <= len(parameters) <= argument_count + 1:
        yield 0, f"it has {len(parameters)} parameters, and is called with {argument_count} and the stream"
    for number, parameter in enumerate(parameters):
        sentence = None
        if number < len(tensors):
            sentence = _tensor_fault(parameter, tensors[number], is_output=number >= len(call.inputs))
        elif number < argument_count:
            is_integer = parameter.depth is None or (parameter.depth == 0 and (parameter.type is None or parameter.type[0] == "integer"))
            sentence = None if is_integer else f"is given the size {call.axes[number - len(tensors)]}, which is an int64_t"
        if sentence is not None:
            yield parameter.line, f"`{parameter.text}` {sentence}"


def _tensor_fault(parameter: _Parameter, tensor: TensorSpec, *, is_output: bool) -> str | None:
    kind, size = _DTYPES[tensor.dtype]
    role = "output" if is_output else "input"
    if tensor.shape == ():
        if parameter.depth:
            return f"is given the {role} {tensor.name}, which is passed by value, as {C_TYPES[tensor.dtype]}"
        if parameter.type is None or parameter.depth != 0:
            return None
        # Floats of 4 and 8 bytes have registers of their own; all else travels in an integer's, whatever its size.
        in_vector = [name == "float" and size_bytes >= 4 for name, size_bytes in (parameter.type, (kind, size))]
        differs = in_vector[0] != in_vector[1] or (in_vector[0] and parameter.type != (kind, size))
        return f"is given the {role} {tensor.name}, which is {tensor.dtype}" if differs else None
    if parameter.depth == 0 and parameter.type is not None:
        return f"is given the {role} {tensor.name}, which is passed as a pointer to {tensor.dtype}"
    if parameter.depth != 1:
        return None
    # Memory may be seen as bytes, and half precision as its bits.
    views = {(kind, size), ("integer", 1), *([("integer", 2)] if size == 2 else [])}
    if parameter.type is not None and parameter.type not in views:
        return f"is given the {role} {tensor.name}, which is {tensor.dtype}"
    if is_output and parameter.is_const:
        return f"is given the output {tensor.name}, which is to be written"
    return None


def _definitions(text: str, entry: str) -> Iterator[tuple[int, list[_Parameter]]]:
    waiting = [syntax_tree(text.encode("utf-8", "surrogateescape"))]
    while waiting:
        node = waiting.pop()
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        if declarator is None:
            waiting.extend(child for child in node.children if child.type != "compound_statement")
            continue
        name, parameters = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
        if name is not None and _text(name) == entry and parameters is not None and not parameters.has_error:
            yield 1 + declarator.start_point[0], [*_parameters(parameters)]


def _parameters(node: Node) -> Iterator[_Parameter]:
    declarations = [child for child in node.named_children if child.type in ("parameter_declaration", "optional_parameter_declaration")]
    if [_text(declaration) for declaration in declarations] == ["void"]:
        return
    for declaration in declarations:
        written, declarator = declaration.child_by_field_name("type"), declaration.child_by_field_name("declarator")
        yield _Parameter(
            text=" ".join(_text(declaration).split()),
            line=1 + declaration.start_point[0],
            type=_type(written),
            depth=_depth(declarator),
            is_const=any(child.type == "type_qualifier" and _text(child) == "const" for child in declaration.children),
        )


def _type(node: Node | None) -> tuple[str, int] | None:
    """Kind and size; `unsigned long long` and the like are integers of their longest word."""
    if node is None:
        return None
    words = _text(node).removeprefix("::").split()
    sizes = {_TYPES.get(word) for word in words} - ({("integer", 4)} if {"long", "short", "char"} & {*words} else set())
    return next(iter(sizes)) if len(sizes) == 1 else None


def _depth(declarator: Node | None) -> int | None:
    """How many pointers a declarator makes; None where it is of another form."""
    depth, node = 0, declarator
    while node is not None and node.type != "identifier":
        if node.type not in ("pointer_declarator", "abstract_pointer_declarator", "array_declarator", "abstract_array_declarator"):
            return None
        depth += 1
        node = node.child_by_field_name("declarator")
    return depth


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
