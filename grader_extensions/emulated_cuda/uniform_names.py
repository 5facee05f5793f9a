"""Reads a file's kernels and, for each, which variables have the same value in all threads of a block, as far as its form shows.

A kernel may be run as loops over the threads of a block if its threads meet at `__syncthreads()` only. A name is uniform where its first
value, and all that is later assigned to it, is made of constants, parameters, `blockIdx`, `blockDim`, `gridDim` and other uniform names,
and where every change of it stands on a path that all threads take.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import Token, descendants, readable_tree

_NATIVE = Path(__file__).resolve().parent / "native"
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
# Functions of CUDA that take numbers by value, and pointers to read from.
_OF_NUMBERS = frozenset(
    b"min max fmaf fma fmaxf fminf fmax fmin expf __expf exp exp2f exp2 sqrtf rsqrtf rsqrt tanhf tanh logf __logf log log2f powf pow "
    b"fabsf fabs abs __ldg __ldcg __fdividef make_float2 make_float3 make_float4 make_int2 make_int4 make_half2 __half2float "
    b"__float2half __float2half_rn __bfloat162float __float2bfloat16 __fmaf_rn __fadd_rn __fmul_rn floorf ceilf roundf truncf rintf "
    b"erff erfcf sinf cosf sqrt printf assert sizeof isnan isinf signbit copysignf fmodf __float2int_rn __int_as_float "
    b"__float_as_int int float double unsigned long bool size_t int64_t uint32_t int32_t uint64_t".split()
)
_ATOMICS = frozenset({b"atomicAdd", b"atomicMax", b"atomicMin", b"atomicSub", b"atomicAnd", b"atomicOr", b"atomicXor"})
_PLAIN = frozenset(
    {"number_literal", "true", "false", "char_literal", "sizeof_expression", "binary_expression", "parenthesized_expression"}
    | {"conditional_expression", "cast_expression", "unary_expression", "type_descriptor", "primitive_type", "sized_type_specifier"}
    | {"type_qualifier", "comment"}
)
_OF_BLOCK = frozenset({b"blockIdx", b"blockDim", b"gridDim"})
_CALLS = frozenset({b"min", b"max"})


class NotPossible(Exception):
    """This kernel cannot be run so; the argument says why."""


def file_allows(code: bytes, tokens: list[Token]) -> bool:
    """Return whether nothing in the file lets threads meet but `__syncthreads()` in a kernel's own body."""
    if b"__global__" not in code:
        return False
    for at, token in enumerate(tokens):
        before, after = tokens[at - 1].text if at else "", tokens[at + 1].text if at + 1 < len(tokens) else ""
        if _MEETS.fullmatch(token.text) or (token.text == "cuda" and after == "::" and before != "::"):
            return False
        if token.include is not None:  # only a header whose text is known to hold no such function: the device's own, or a system's
            is_quoted, is_ours = token.text.startswith('"'), (_NATIVE / token.include).is_file()
            if (is_quoted and not is_ours) or (not is_quoted and token.include.startswith(_HEADERS)):
                return False
        if token.text in ("__syncthreads", "threadIdx") and (token.in_macro or not token.in_function):
            return False
        if token.text.startswith("atomic") and before not in (";", "{", "}", ")"):
            return False  # its result could be waited for
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFile:
    """Facts that all kernels of a file share. by_value: functions that change no argument; reading: those that also write no memory
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
    declared = (
        node
        for node in nodes
        if node.type == "declaration" and any(child.type in ("__device__", "__managed__") for child in descendants(node))
    )
    variables = frozenset(name for node in declared for name in names_in(node))
    by_value, reading = _functions(nodes, {name.encode() for name in variables})
    return KernelFile(
        kernels=tuple(kernels),
        by_value=_OF_NUMBERS | _ATOMICS | by_value,
        reading=_OF_NUMBERS | reading,
        device_variables=variables,
        statement_macros=frozenset(match[1] for match in _MACRO.finditer(code) if _STATEMENT.search(match[2])),
    )


def identifiers(node: Node) -> Iterator[Node]:
    """Every identifier in it, as often as it stands there."""
    return (inner for inner in descendants(node) if inner.type == "identifier")


def text_of(node: Node) -> str:
    """The text of a node of a tree that was parsed from bytes."""
    return (node.text or b"").decode()


def names_in(node: Node) -> Iterator[str]:
    """The texts of its identifiers."""
    return map(text_of, identifiers(node))


def callee(call: Node) -> bytes:
    """Return the callee as it is written."""
    function = call.child_by_field_name("function")
    return (function.text or b"") if function is not None else b""


def takes_values(function: bytes, by_value: frozenset[bytes]) -> bool:
    """Return whether a function, written with its template arguments, is one of `by_value`, or a cast of a number."""
    name, _, arguments = function.partition(b"<")
    return name.strip() in by_value or (name == b"static_cast" and arguments != b"")


def _functions(nodes: Sequence[Node], variables: set[bytes]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Functions of the file that change no argument, and those that also write no memory: by all their declarations."""
    values, const = dict[bytes, bool](), dict[bytes, bool]()
    for node in nodes:
        name, parameters = node.child_by_field_name("declarator"), node.child_by_field_name("parameters")
        if node.type != "function_declarator" or name is None or parameters is None:
            continue
        key, texts = name.text or b"", [item.text or b"" for item in parameters.named_children]
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
        if any(item.type == "__shared__" or (item.type == "identifier" and item.text in variables) for item in inside):
            const[name.text] = False
        calls = (callee(item) for item in inside if item.type == "call_expression")
        called.setdefault(name.text, set()).update(item for item in calls if not item.startswith(b"reinterpret_cast<const"))
    while writing := [  # a function that calls one which writes is no better
        function
        for function, calls in called.items()
        if const.get(function) and not all(takes_values(call, _OF_NUMBERS) or const.get(call, False) for call in calls)
    ]:
        const |= dict.fromkeys(writing, False)
    return frozenset(name for name, good in values.items() if good), frozenset(name for name, good in const.items() if good)


@dataclass(frozen=True, slots=True)
class Declared:
    """Name of a declaration; declarator: without its value."""

    name: str
    identifier: Node
    declarator: Node
    value: Node | None

    @property
    def is_array(self) -> bool:
        """Return whether the outermost part of its type is an array."""
        return self.identifier.parent is not None and self.identifier.parent.type == "array_declarator"

    @property
    def is_reference(self) -> bool:
        """Return whether it is a reference."""
        return self.declarator.type == "reference_declarator"


def declared_names(node: Node) -> list[Declared]:
    """The names that a declaration declares, in their order; NotPossible where a declarator has another form."""
    names = []
    for at, child in enumerate(node.children):
        if node.field_name_for_child(at) != "declarator":
            continue
        declarator, value = child, None
        if child.type == "init_declarator":
            declarator, value = child.children[0], child.child_by_field_name("value")
        inner = declarator
        while inner.type != "identifier":
            nested = inner.child_by_field_name("declarator") or (inner.named_children[-1] if inner.type == "reference_declarator" else None)
            if nested is None or inner.type not in ("pointer_declarator", "array_declarator", "reference_declarator"):
                raise NotPossible(f"a declarator that is a {inner.type}")
            inner = nested
        names.append(Declared(text_of(inner), inner, declarator, value))
    return names


def is_barrier(node: Node) -> bool:
    """Return whether it is the statement `__syncthreads();`."""
    return node.type == "expression_statement" and (node.text or b"").replace(b" ", b"") == b"__syncthreads();"


def holds_barrier(node: Node) -> bool:
    """Return whether it is or contains such a statement."""
    return any(is_barrier(inner) for inner in descendants(node))


class UniformNames:
    """Those of one kernel."""

    def __init__(self, kernel: Node, body: Node, file: KernelFile) -> None:
        self._parameters = _parameters(kernel)
        self._common = {statement.id for statement in _common_statements(body)}  # by all threads, or by none
        self._declarations = _declarations(body)
        self._varying = {"threadIdx", *self._parameters, *self._declarations, *file.device_variables}
        self._changes = _changes(body, file.by_value)
        self._names = {*self._parameters, *self._declarations}
        while (remaining := {name for name in self._names if self._keeps(name, self._names)}) != self._names:
            self._names = remaining
        self._computed = self._find_computed()

    def copied_parameters(self) -> list[str]:
        """Parameters that threads change, each its own copy."""
        return [name for name in self._parameters if name in self._changes and name not in self._names]

    def is_parameter(self, name: str) -> bool:
        """Return whether the kernel has a parameter of this name."""
        return name in self._parameters

    def declares(self, node: Node) -> bool:
        """Return whether a declaration declares uniform names only."""
        return node.id in self._common and all(declared.name in self._names for declared in _names_or_none(node))

    def computes(self, node: Node) -> bool:
        """Return whether a loop may compute a declaration's values anew: made of `threadIdx` and constants, and never changed."""
        if node.type != "declaration" or node.id not in self._common:
            return False
        return all(declared.name in self._computed for declared in _names_or_none(node))

    def changed_within(self, name: str, begin: int, end: int) -> bool:
        """Return whether something between these bytes may change the name."""
        return any(begin <= change.start_byte < end for change in self._changes.get(name, []))

    def is_pointed_to(self, name: str) -> bool:
        """Return whether its address is taken anywhere."""
        return any(change.type == "pointer_expression" for change in self._changes.get(name, []))

    def changes(self, node: Node) -> bool:
        """Return whether a statement changes a uniform name, and does nothing else."""
        if node.type != "expression_statement" or node.id not in self._common:
            return False
        name = _target(node.named_children[0]) if node.named_children else None
        return name is not None and name in self._names

    def check_loop(self, node: Node) -> None:
        """Raise NotPossible unless all threads go through the loop the same number of times."""
        first = node.child_by_field_name("initializer")
        condition, step = node.child_by_field_name("condition"), node.child_by_field_name("update")
        if first is not None and first.type == "declaration":
            good = all(inner.name in self._names for inner in _names_or_none(first))
        else:
            good = first is None or _target(first) in self._names
        good = good and (step is None or _target(step) in self._names)
        if not good or condition is None or not self._is_uniform(condition, self._names):
            raise NotPossible("a loop around a barrier that threads may leave at different times")
        if _is_left(node):
            raise NotPossible("a way out of a loop around a barrier")

    def check_condition(self, node: Node) -> None:
        """Raise NotPossible unless all threads take the same branch."""
        condition = node.child_by_field_name("condition")
        inner = condition.named_children if condition is not None else []
        if len(inner) != 1 or not self._is_uniform(inner[0], self._names):
            raise NotPossible("a condition around a barrier that threads may answer differently")

    def _find_computed(self) -> set[str]:
        fixed = {name for name in self._names if name not in self._changes} | {"threadIdx"}
        computed: set[str] = set()
        candidates = self._declarations.keys() - self._names
        while added := {name for name in candidates - computed if self._is_computed(name, fixed | computed)}:
            computed |= added
        return computed

    def _is_computed(self, name: str, names: set[str]) -> bool:
        statement, _ = self._declarations[name][0]
        if statement.type != "declaration" or statement.id not in self._common:
            return False
        names = set(names)
        for declared in _names_or_none(statement):  # all of a declaration are, or none
            once = len(self._declarations[declared.name]) == 1 and declared.name not in {*self._changes, *self._parameters}
            if not once or declared.declarator.type != "identifier" or declared.value is None:
                return False
            if not self._is_uniform(declared.value, names):
                return False
            names.add(declared.name)
        return True

    def _keeps(self, name: str, names: set[str]) -> bool:
        declared = self._declarations.get(name, [])
        if name in self._parameters and declared:
            return False
        for statement, item in declared:
            if item.is_array or item.is_reference or item.value is None or not self._is_uniform(item.value, names):
                return False
            if statement.id not in self._common or not all(sibling.name in names for sibling in _names_or_none(statement)):
                return False  # all of a declaration are, or none
        for change in self._changes.get(name, []):
            statement = change.parent if change.parent is not None and change.parent.type == "expression_statement" else change
            if statement.id not in self._common or _target(change) != name:
                return False
            right = change.child_by_field_name("right")
            if right is not None and not self._is_uniform(right, names):
                return False
        return True

    def _is_uniform(self, node: Node, names: set[str]) -> bool:
        if node.type == "identifier":
            name = text_of(node)
            return name in names or name not in self._varying
        if node.type == "field_expression":
            base = node.child_by_field_name("argument")
            if base is None or base.type != "identifier" or b"->" in (node.text or b""):
                return False
            return base.text in _OF_BLOCK or text_of(base) in names
        operands = node.named_children
        if node.type == "call_expression":
            arguments, function = node.child_by_field_name("arguments"), callee(node)
            if arguments is None or not (function in _CALLS or function.startswith(b"static_cast<")):
                return False
            operands = arguments.named_children
        elif node.type not in _PLAIN:
            return False
        return all(self._is_uniform(operand, names) for operand in operands)


def parameter_nodes(kernel: Node) -> list[Node]:
    """Return the parameters of a kernel, and comments between them; NotPossible without a list of them."""
    declarator = kernel.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    if parameters is None:
        raise NotPossible("a kernel without a list of parameters")
    return parameters.named_children


def _parameters(kernel: Node) -> list[str]:
    names = []
    for parameter in parameter_nodes(kernel):
        inner = parameter.child_by_field_name("declarator")
        while inner is not None and inner.type != "identifier":
            inner = inner.child_by_field_name("declarator")
        if parameter.type == "parameter_declaration" and inner is not None and inner.text is not None:
            names.append(inner.text.decode())
        elif parameter.type != "comment":
            raise NotPossible("a parameter without a name, or a pack of them")
    return names


_PARTS = {"for_statement": ("initializer", "update"), "if_statement": ()}
_BRANCHES = {"for_statement": ("body",), "if_statement": ("consequence", "alternative")}


def _common_statements(scope: Node) -> Iterator[Node]:
    """Statements that stand in no loop or condition but those around a barrier, with the parts of such loops that change names."""
    for node in scope.children:
        yield node
        if not holds_barrier(node):
            continue
        if node.type == "compound_statement":
            yield from _common_statements(node)
        yield from filter(None, map(node.child_by_field_name, _PARTS.get(node.type, ())))
        for branch in filter(None, map(node.child_by_field_name, _BRANCHES.get(node.type, ()))):
            inner = branch.named_children[-1] if branch.type == "else_clause" else branch
            yield from _common_statements(inner) if inner.type == "compound_statement" else (inner,)


def _declarations(body: Node) -> dict[str, list[tuple[Node, Declared]]]:
    """Every declaration of each local name, wherever it stands. Names of other forms, such as a lambda's parameters, have an entry too."""
    declarations = defaultdict[str, list[tuple[Node, Declared]]](list)
    for node in descendants(body):
        if node.type == "declaration":
            for declared in _names_or_none(node):
                declarations[declared.name].append((node, declared))
        elif node.type in ("parameter_declaration", "for_range_loop", "structured_binding_declarator", "condition_clause"):
            for inner in identifiers(node):
                if inner.parent is not None and inner.parent.type.endswith(("declarator", "declaration")):
                    declarations[text_of(inner)].append((node, Declared(text_of(inner), inner, inner, None)))
    return declarations


def _names_or_none(node: Node) -> list[Declared]:
    try:
        return declared_names(node)
    except NotPossible:  # a structured binding and the like: names that are never uniform
        return [Declared(text_of(inner), inner, inner, None) for inner in identifiers(node)]


def _changes(body: Node, by_value: frozenset[bytes]) -> dict[str, list[Node]]:
    """The expressions that may change each name: assignments, `++`, `&name`, and calls that may take it by reference."""
    changes = defaultdict[str, list[Node]](list)
    for node in descendants(body):
        if node.type == "assignment_expression":
            changed = [node.child_by_field_name("left")]
        elif node.type in ("update_expression", "pointer_expression"):
            dereferences = node.type == "pointer_expression" and not (node.text or b"").startswith(b"&")
            changed = [] if dereferences else [node.child_by_field_name("argument")]
        elif node.type == "call_expression" and not takes_values(callee(node), by_value):
            arguments = node.child_by_field_name("arguments")
            changed = [argument for argument in arguments.named_children if argument.type == "identifier"] if arguments is not None else []
        else:
            continue
        for argument in changed:
            root = argument
            while root is not None and root.type in ("field_expression", "parenthesized_expression"):
                root = root.child_by_field_name("argument") or (root.named_children[0] if root.named_children else None)
            if root is not None and root.type == "subscript_expression" and node.type == "pointer_expression":
                continue  # `&a[i]`: the address of what a pointer points to
            if root is not None and root.type == "identifier":
                changes[text_of(root)].append(node)
    return changes


def _target(node: Node) -> str | None:
    """The name that an expression changes, where it is a plain name; of a statement, its expression."""
    if node.type == "expression_statement" and node.named_children:
        node = node.named_children[0]
    field = {"assignment_expression": "left", "update_expression": "argument"}.get(node.type)
    changed = node.child_by_field_name(field) if field is not None else None
    return changed.text.decode() if changed is not None and changed.type == "identifier" and changed.text is not None else None


def _is_left(loop: Node) -> bool:
    """Return whether a `break` or `continue` belongs to the loop, and to no loop or switch inside it."""
    waiting = [(child, True) for child in loop.children]
    while waiting:
        node, breaks = waiting.pop()
        if node.type == "continue_statement" or (node.type == "break_statement" and breaks):
            return True
        if node.type not in ("for_statement", "while_statement", "do_statement", "for_range_loop"):
            waiting += [(child, breaks and node.type != "switch_statement") for child in node.children]
    return False
