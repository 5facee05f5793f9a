"""Compares the parameters of a raw CUDA entry with what the problem calls it with, and finds their order where it is another one.

Nothing checks them when it is called: a `const double*` that is given float32 reads other numbers. Only a clear contradiction counts.
A source may cast, and a type that is not known here may be the right one. Where the problem's order contradicts the parameters, they are
matched by name, and those that are left by what they can take: an order in which nothing contradicts the problem is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import node_text, syntax_tree
from sandbox.protocol.directives import directives_of
from sandbox.protocol.signatures import C_TYPES, cuda_parameters
from sandbox.protocol.wire import BuildNote, EntryCall, TensorSpec

# Kind and size in bytes of what C++ calls so; integers whatever their sign.
_INTEGERS = {1: "int8_t uint8_t char bool", 2: "short int16_t uint16_t", 4: "int signed unsigned int32_t uint32_t"}
_INTEGERS[8] = "long int64_t uint64_t size_t ssize_t ptrdiff_t intptr_t uintptr_t"
_TYPES = {name: ("integer", size) for size, names in _INTEGERS.items() for name in names.split()}
_TYPES |= {"float": ("float", 4), "double": ("float", 8), "half": ("float", 2), "__half": ("float", 2)}
_TYPES |= dict.fromkeys(("__nv_bfloat16", "nv_bfloat16"), ("bfloat", 2))
_TYPES |= {"__nv_fp8_e4m3": ("e4m3", 1), "__nv_fp8_e5m2": ("e5m2", 1)}
# By torch's name.
_DTYPES = {name: _TYPES[written] for name, written in C_TYPES.items()}
_SCOPES = {"namespace_definition", "class_specifier", "struct_specifier", "template_declaration"}
_STREAM, _STREAM_TYPE = "stream", "cudaStream_t"
_PARAMETER_LIMIT = 32  # of an entry in an order of its own: a note holds no more (grader/grading/pipeline.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """Parameter as it is written. name: "" where it has none; type: kind and size, None where that is not known; depth: of pointers, None
    in any other form."""

    text: str
    name: str
    line: int
    type: tuple[str, int] | None
    depth: int | None
    is_const: bool


def note(entry: str, call: EntryCall, sources: Mapping[str, str]) -> BuildNote:
    """Return the order of the parameters of the one definition of the entry, where it is not the problem's, or what contradicts the
    problem; neither where it may be right, or can't be read."""
    if any(item.dtype not in _DTYPES for item in (*call.inputs, *call.outputs)):
        return BuildNote()
    definitions = [(path, *item) for path, text in sources.items() if entry in text for item in _definitions(text, entry)]
    names = [*(tensor.name for tensor in (*call.inputs, *call.outputs)), *call.axes, _STREAM]  # of the arguments, in the problem's order
    for path, text in sources.items():
        for directive in directives_of(text, "arguments"):
            count = len(definitions[0][-1]) if len(definitions) == 1 else None
            return _directed(directive, names, len(call.inputs) + len(call.outputs), f"{path}: arguments={directive}", count)
    if len(definitions) != 1:
        return BuildNote()
    path, line, parameters = definitions[0]
    faults = list(_faults(parameters, call))
    if not faults:
        size, missed = parameters[-1] if parameters else None, call.axes[1:]  # the first of several may be meant for all
        if size and missed and len(parameters) == len(names) - 1 - len(missed) and size.name.casefold() not in map(str.casefold, call.axes):
            sentence = f"`{size.text}` is given the size {call.axes[0]}, and nothing is given {', '.join(missed)}"
            return BuildNote(mismatch=f"{path}:{line}: {sentence}")
        return BuildNote()
    if order := _order(parameters, call, names):
        remark = f"{path}:{line}: {entry} is called as {entry}({', '.join(names[place] for place in order)}), by its parameters"
        return BuildNote(argument_order=order, remarks=(remark,))
    at, sentence = faults[0]
    rest = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return BuildNote(mismatch=f"{path}:{at or line}: {sentence}{rest}; the problem calls void {entry}({cuda_parameters(call)})")


def _directed(text: str, names: list[str], tensor_count: int, where: str, count: int | None) -> BuildNote:
    """The order that a source asks for. count: of the entry's parameters, None where they can't be read."""
    written = [name.strip() for name in text.split(",")]
    fault = ""
    if unknown := next((name for name in written if name not in names), None):
        fault = f"the problem has no {unknown!r}"
    elif missing := next((name for name in names[:tensor_count] if written.count(name) != 1), None):
        fault = f"{missing!r} has to be there once"
    elif len(written) > _PARAMETER_LIMIT or count not in (None, len(written)):
        fault = f"that are {len(written)} arguments for {count} parameters, of at most {_PARAMETER_LIMIT}"
    if fault:
        return BuildNote(mismatch=f"{where}: {fault}; it has {', '.join(names)}")
    return BuildNote(argument_order=tuple(names.index(name) for name in written))


def _order(parameters: Sequence[_Parameter], call: EntryCall, names: Sequence[str]) -> tuple[int, ...]:
    """Return the argument of each parameter, by its place in the problem's order; () where none is certain."""
    tensors = (*call.inputs, *call.outputs)
    free, places = list(range(len(names))), dict[int, int]()

    def assign(pairs: Iterable[tuple[int, int]]) -> None:
        for number, place in pairs:
            places[number] = place
            free.remove(place)

    for number, parameter in enumerate(parameters):
        alike = [place for place in free if names[place] == parameter.name]
        alike = alike or [place for place in free if names[place].casefold() == parameter.name.casefold()]
        if _STREAM_TYPE in parameter.text:
            alike = [place for place in free if place == len(names) - 1]
        assign((number, place) for place in alike if len(alike) == 1 and not _argument_fault(parameter, call, place))
    by_value = {place for place, tensor in enumerate(call.inputs) if not tensor.shape}
    floats = {place for place in by_value if _DTYPES[tensors[place].dtype][0] == "float"}
    pointers = {*range(len(tensors))} - by_value
    # The others are matched where there are as many parameters as arguments of a kind, in their order.
    for is_pointer, is_output, is_float, kind in (
        (True, True, False, {place for place, tensor in enumerate(tensors) if place >= len(call.inputs) or tensor.inout}),
        (True, False, False, pointers),
        (False, False, True, floats),
        (False, False, False, {*range(len(names) - 1)} - pointers - floats),
    ):
        unmatched = [
            number
            for number, parameter in enumerate(parameters)
            if number not in places
            and parameter.depth == int(is_pointer)
            and not (is_output and parameter.is_const)
            and (not is_float or (parameter.type is not None and parameter.type[0] == "float"))
        ]
        arguments = [place for place in free if place in kind]
        is_mixed = len({place in by_value for place in arguments}) > 1  # sizes and other integers look alike
        if len(unmatched) == len(arguments) and not (is_mixed and not is_pointer):
            assign(zip(unmatched, arguments, strict=True))
    is_whole = len(places) == len(parameters) <= _PARAMETER_LIMIT and all(place >= len(tensors) for place in free)
    fits = is_whole and not any(_argument_fault(parameters[number], call, place) for number, place in places.items())
    return tuple(places[number] for number in sorted(places)) if fits else ()


def _faults(parameters: Sequence[_Parameter], call: EntryCall) -> Iterator[tuple[int, str]]:
    """Contradictions, each with its line; 0: that of the entry."""
    tensor_count = len(call.inputs) + len(call.outputs)
    argument_count = tensor_count + len(call.axes)
    if not tensor_count <= len(parameters) <= argument_count + 1:
        yield 0, f"it has {len(parameters)} parameters, and is called with {argument_count} and the stream"
    for place, parameter in enumerate(parameters):
        if sentence := _argument_fault(parameter, call, place):
            yield parameter.line, f"`{parameter.text}` {sentence}"


def _argument_fault(parameter: _Parameter, call: EntryCall, place: int) -> str | None:
    """Return why a parameter can't be given the argument at this place of the problem's order; None where it may."""
    tensors = (*call.inputs, *call.outputs)
    if place < len(tensors):
        return _tensor_fault(parameter, tensors[place], is_output=place >= len(call.inputs))
    is_integer = parameter.depth is None or (parameter.depth == 0 and (parameter.type is None or parameter.type[0] == "integer"))
    if is_integer or place >= len(tensors) + len(call.axes):
        return None
    return f"is given the size {call.axes[place - len(tensors)]}, which is an int64_t"


def _tensor_fault(parameter: _Parameter, tensor: TensorSpec, *, is_output: bool) -> str | None:
    kind, size = _DTYPES[tensor.dtype]
    role = "output" if is_output else "input"
    if tensor.shape == () and not is_output:
        if parameter.depth:
            return f"is given the input {tensor.name}, which is passed by value, as {C_TYPES[tensor.dtype]}"
        if parameter.type is None or parameter.depth != 0:
            return None
        # Floats of 4 and 8 bytes have registers of their own; all else travels in an integer's, whatever its size.
        in_vector = [name == "float" and size_bytes >= 4 for name, size_bytes in (parameter.type, (kind, size))]
        differs = in_vector[0] != in_vector[1] or (in_vector[0] and parameter.type != (kind, size))
        return f"is given the input {tensor.name}, which is {tensor.dtype}" if differs else None
    if parameter.depth == 0 and parameter.type is not None:
        return f"is given the {role} {tensor.name}, which is passed as a pointer to {tensor.dtype}"
    if parameter.depth != 1:
        return None
    # Memory may be seen as bytes, and half precision as its bits.
    views = {(kind, size), ("integer", 1), *([("integer", 2)] if size == 2 else [])}
    if parameter.type is not None and parameter.type not in views:
        return f"is given the {role} {tensor.name}, which is {tensor.dtype}"
    if (is_output or tensor.inout) and parameter.is_const:
        return f"is given the {role} {tensor.name}, which is to be written"
    return None


def _definitions(text: str, entry: str) -> Iterator[tuple[int, list[_Parameter]]]:
    """The definitions that may be the entry: with C linkage, or outside of namespaces, classes and templates."""
    waiting = [(syntax_tree(text.encode("utf-8", "surrogateescape")), True)]
    while waiting:
        node, may_be = waiting.pop()
        if node.type == "preproc_if" and node_text(node.child_by_field_name("condition")) == "0":
            continue
        may_be = node.type == "linkage_specification" or (may_be and node.type not in _SCOPES)
        declarator = node.child_by_field_name("declarator") if node.type == "function_definition" else None
        if declarator is None:
            waiting.extend((child, may_be) for child in node.children if child.type != "compound_statement")
            continue
        name, parameters = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
        if may_be and name is not None and node_text(name) == entry and parameters is not None and not parameters.has_error:
            yield 1 + declarator.start_point[0], [*_parameters(parameters)]


def _parameters(node: Node) -> Iterator[_Parameter]:
    declarations = [child for child in node.named_children if child.type in ("parameter_declaration", "optional_parameter_declaration")]
    if [node_text(declaration) for declaration in declarations] == ["void"]:
        return
    for declaration in declarations:
        written, declarator = declaration.child_by_field_name("type"), declaration.child_by_field_name("declarator")
        yield _Parameter(
            text=" ".join(node_text(declaration).split()),
            name=_name(declarator),
            line=1 + declaration.start_point[0],
            type=_type(written),
            depth=_depth(declarator),
            is_const=any(child.type == "type_qualifier" and node_text(child) == "const" for child in declaration.children),
        )


def _type(node: Node | None) -> tuple[str, int] | None:
    """Kind and size; `unsigned long long` and the like are integers of their longest word."""
    if node is None:
        return None
    words = node_text(node).removeprefix("::").split()
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


def _name(declarator: Node | None) -> str:
    node = declarator
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator")
    return node_text(node)
