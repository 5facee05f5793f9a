"""Gives a kernel a second body for the emulated device, in which loops over the threads of a block stand between its barriers.

The first body runs once for each thread, on a fiber that waits at each `__syncthreads()`. The second runs once for a whole block, so
that a barrier costs nothing and g++ vectorises over threads. Variables that live across a barrier get an element for each thread. This is
the deep fission of MCUDA (Stratton, Stone, Hwu: MCUDA, LCPC 2008) with one rule more: a loop or condition around a barrier must be the
same for all threads of a block by its form. A kernel that this module does not understand keeps its one body; `emu/block_loops.h` chooses
at run time. What one thread computes is the same in both, operation by operation.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from grader_extensions.emulated_cuda.uniform_names import (
    Declared,
    KernelFile,
    NotPossible,
    UniformNames,
    callee,
    declared_names,
    file_allows,
    holds_barrier,
    identifiers,
    is_barrier,
    names_in,
    parameter_nodes,
    read_file,
    takes_values,
    text_of,
)
from sandbox.compilers.cuda_tokens import Token, descendants

ANYTHING = "*"  # memory that has no name here
_HARMLESS = frozenset({b"printf", b"assert", b"__ldg"})
_CASTS = (b"reinterpret_cast<", b"const_cast<", b"dynamic_cast<")
_CHAIN = frozenset({"subscript_expression", "field_expression", "parenthesized_expression", "cast_expression", "pointer_expression"})
Edited = Callable[[int, int, list[tuple[int, int, str]]], str]  # the text of a range of bytes, as translated, with replacements
_OUTER = frozenset({"using_declaration", "alias_declaration", "type_definition", "static_assert_declaration"})
SECOND_BODY = "EMU_FIRST_BODY"  # stands in a translated text that has one
_NUMBER = re.compile(r"\b(?:bool|char|short|int|unsigned|long|float|double|size_t|u?int\d+_t|uint)\b|\*")
_SKIPPED = frozenset({"comment", ";", "{", "}"})


@dataclass(frozen=True, slots=True)
class Accesses:
    """Names of arrays and pointers; ANYTHING is all of them."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def conflict_with(self, accesses: Accesses) -> bool:
        """Return whether one may write memory that the other reads or writes."""
        return _meet(self.writes, accesses.reads | accesses.writes) or _meet(accesses.writes, self.reads)


def _meet(written: frozenset[str], touched: frozenset[str]) -> bool:
    return bool(written and touched) and (ANYTHING in written or ANYTHING in touched or not written.isdisjoint(touched))


class SharedNames:
    """Which names of a kernel stand for memory of all threads."""

    def __init__(self, kernel: Node, body: Node, file: KernelFile) -> None:
        self._harmless, self._variables = file.reading, file.device_variables
        self._shared: set[str] = set()
        self._own: set[str] = set()  # a thread's arrays and objects
        self._pointers, self._read_only = _pointer_parameters(kernel)
        for node in descendants(body):
            if node.type == "declaration":
                shared = any(declared.type == "__shared__" for declared in descendants(node))
                for declared in declared_names(node):
                    pointer = declared.declarator.type in ("pointer_declarator", "reference_declarator")
                    (self._shared if shared else self._own if not pointer else set()).add(declared.name)
        self._own -= self._shared

    def accesses(self, nodes: Iterable[Node]) -> Accesses:
        """Of these statements."""
        reads, writes = set[str](), set[str]()
        for node in (inner for top in nodes for inner in descendants(top)):
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
            function = callee(node)
            if function.startswith(_CASTS) or function in _HARMLESS:
                return ()
            arguments = node.child_by_field_name("arguments")
            passed = arguments.named_children if arguments is not None else []
            if function.startswith(b"atomic") and passed:
                name = _base(passed[0])
                return ((name if name is not None and (name in self._shared or name in self._pointers) else ANYTHING, True),)
            return () if takes_values(function, self._harmless) else ((ANYTHING, True),)
        if node.type == "identifier":
            name = text_of(node)
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


def _pointer_parameters(kernel: Node) -> tuple[set[str], set[str]]:
    """The names of pointers, and of those to what is const."""
    pointers, read_only = set[str](), set[str]()
    for parameter in parameter_nodes(kernel):
        inner = parameter.child_by_field_name("declarator")
        name = inner.child_by_field_name("declarator") if inner is not None and inner.type == "pointer_declarator" else None
        if name is not None and name.type == "identifier":
            pointers.add(text_of(name))
            if any(child.type == "type_qualifier" and child.text == b"const" for child in parameter.children):
                read_only.add(text_of(name))
    return pointers, read_only


def _base(node: Node) -> str | None:
    """The identifier that an expression of an address starts from: `a` of `a[i].x`, `&a[i]` and `*(a + i)`."""
    at: Node | None = node
    while at is not None:
        if at.type == "identifier":
            return text_of(at)
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
    """Return whether it is only the beginning of a longer subscript."""
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
    is_target = above.type == "assignment_expression" and above.child_by_field_name("left") == node
    return is_target or above.type == "update_expression"


def _is_read_too(node: Node) -> bool:
    """Return whether the memory written is read first, as by `+=`."""
    above = _outermost(node).parent
    return above is None or above.type != "assignment_expression" or not any(child.type == "=" for child in above.children)


def insertions(code: bytes, tokens: list[Token], path: str, edited: Edited) -> Iterator[tuple[int, str]]:
    """Text to insert into the translated source: what goes around the first body of each kernel that allows a second, which follows it."""
    file = read_file(code) if file_allows(code, tokens) else None
    if file is None:
        return
    for kernel in file.kernels:
        body = kernel.child_by_field_name("body")
        if body is None or not body.named_child_count:  # `{}` has no room between its braces
            continue
        try:
            file.check(kernel)
            second = _SecondBody(file, kernel, body, path, edited).text()
        except NotPossible:
            continue
        apart = "" if code[body.start_byte + 1 : body.start_byte + 2].isspace() else " "  # `{int x` would become one word
        yield body.start_byte + 1, f" {SECOND_BODY}{apart}"
        close = body.end_byte - 1
        line = body.end_point[0] + 1
        yield close, f'\n#ifdef EMU_BLOCK_LOOPS\n}} else {{\n{second}\n}}\n#else\n}}\n#endif\n# {line} "{path}"\n'


@dataclass(frozen=True, slots=True)
class _PerThread:
    """A variable with an element for each thread. copied: a loop works with a copy of the element, in a register."""

    array: str
    copied: bool


@dataclass
class _LoopScope:
    """Declarations of a pair of braces around barriers."""

    arrays: dict[str, _PerThread] = field(default_factory=dict)
    computed: list[Node] = field(default_factory=list)  # declarations that each loop repeats, where it needs them


@dataclass(frozen=True, slots=True)
class _Interval:
    """Of a piece of a kernel: the loops that threads may be in before its first barrier, and after its last; passes: there may be none.

    Threads that wait for no barrier are in several loops at once, and here one loop ends before the next begins. So two loops
    without a barrier between them must not touch what is shared: the kernel would look right that has forgotten the barrier.
    """

    begin: tuple[Accesses, ...] = ()
    end: tuple[Accesses, ...] = ()
    passes: bool = True

    def then(self, after: _Interval) -> _Interval:
        """Both, one after the other; NotPossible where a barrier is missing between them."""
        if any(earlier.conflict_with(later) for earlier in self.end for later in after.begin):
            raise NotPossible("no barrier between two accesses that need one")
        begin = (*self.begin, *after.begin) if self.passes else self.begin
        end = (*after.end, *self.end) if after.passes else after.end
        return _Interval(begin, end, self.passes and after.passes)

    def or_else(self, alternative: _Interval) -> _Interval:
        """Combine two branches."""
        return _Interval((*self.begin, *alternative.begin), (*self.end, *alternative.end), self.passes or alternative.passes)


_BARRIER = _Interval(passes=False)


class _SecondBody:
    def __init__(self, file: KernelFile, kernel: Node, body: Node, path: str, edited: Edited) -> None:
        self._body, self._path, self._edited = body, path, edited
        self._uniform = UniformNames(kernel, body, file)
        self._shared = SharedNames(kernel, body, file)
        self._places = defaultdict[str, list[int]](list)  # where each identifier stands, in order
        for identifier in identifiers(body):
            self._places[text_of(identifier)].append(identifier.start_byte)
        self._scopes: list[_LoopScope] = []
        self._number = self._loop_depth = 0
        returns = [node for node in descendants(body) if node.type == "return_statement"]
        self._first_return = min((node.start_byte for node in returns), default=None)
        self._out: list[str] = []

    def text(self) -> str:
        """The whole of it, without the braces."""
        self._scopes.append(_LoopScope())
        self._out.append("EMU_BLOCK_VARIABLES")
        if self._first_return is not None:
            self._out.append("bool* const __restrict emu_left = ::emu::per_thread<bool>(true);")
        for name in self._uniform.copied_parameters():
            array = self._array_name(name)
            kind = f"std::remove_cv_t<decltype({name})>"
            self._out.append(f"{kind}* const __restrict {array} = ::emu::per_thread<{kind}>();")
            self._out.append(f"EMU_EACH_THREAD {{ {array}[emu_thread] = {name}; }}")
            self._scopes[-1].arrays[name] = _PerThread(array, copied=not self._uniform.is_pointed_to(name))
        self._statements(self._body)
        return "\n".join(self._out)

    def _array_name(self, name: str) -> str:
        self._number += 1
        return f"emu_each_{self._number}_{name}"

    def _statements(self, scope: Node) -> _Interval:
        """Statements of a pair of braces that holds a barrier, or is the body."""
        region: list[Node] = []
        interval = _Interval()
        for node in scope.children:
            if node.type in _SKIPPED or (node.type == "preproc_call" and (node.text or b"").lstrip().startswith(b"#pragma")):
                continue
            if self._is_outer(node):
                interval = interval.then(self._end_region(region, scope)).then(self._outer(node))
            else:
                region.append(node)
        return interval.then(self._end_region(region, scope))

    def _is_outer(self, node: Node) -> bool:
        """Return whether a statement is done once for the block, and not by each thread."""
        if node.type in _OUTER or holds_barrier(node):
            return True
        if node.type == "declaration":
            of_block = any(inner.type == "__shared__" for inner in descendants(node))
            return of_block or self._uniform.declares(node) or any(child.text in (b"constexpr", b"extern") for child in node.children)
        return self._uniform.changes(node)

    def _outer(self, node: Node) -> _Interval:
        if is_barrier(node):
            return _BARRIER
        if node.type == "for_statement":
            self._uniform.check_loop(node)
            body = _field(node, "body")
            self._loop_depth += 1
            inside = self._within(body, self._line(node) + self._text(node.start_byte, body.start_byte))
            self._loop_depth -= 1
            return _Interval().or_else(inside.then(inside))
        if node.type == "if_statement":
            self._uniform.check_condition(node)
            then, otherwise = _field(node, "consequence"), node.child_by_field_name("alternative")
            inside = self._within(then, self._line(node) + self._text(node.start_byte, then.start_byte))
            return inside.or_else(_Interval() if otherwise is None else self._within(otherwise.named_children[-1], "else "))
        if node.type == "compound_statement":
            return self._within(node, "")
        if holds_barrier(node):
            raise NotPossible(f"a barrier in a {node.type}")
        self._out.append(self._line(node) + self._text(node.start_byte, node.end_byte))
        return _Interval()

    def _within(self, body: Node, before: str) -> _Interval:
        """The body of a loop or condition with a barrier in it, behind its first words."""
        self._out.append(f"{before}{{ ::emu::PerThreadScope emu_scope;")
        self._scopes.append(_LoopScope())
        interval = self._statements(body) if body.type == "compound_statement" else self._outer(body)
        self._scopes.pop()
        self._out.append("}")
        return interval

    def _end_region(self, region: list[Node], scope: Node) -> _Interval:
        """Write a loop over the threads that holds these statements; empties the list."""
        if not region:
            return _Interval()
        accesses = self._shared.accesses(region)
        begin, end = region[0].start_byte, region[-1].end_byte
        used = {name for node in region for name in names_in(node)}
        computed = [node for node in region if self._uniform.computes(node)]
        declarations = [node for node in region if node.type == "declaration" and node not in computed]
        per_thread = [node for node in declarations if self._is_used_elsewhere(node, scope, begin, end)]
        for node in per_thread:
            self._make_arrays(node)
        repeated = self._repeated(used)
        self._scopes[-1].computed += computed
        arrays = {name: item for scope in self._scopes for name, item in scope.arrays.items() if name in used}
        aliases = [f"auto{'' if item.copied else '&'} {name} = {item.array}[emu_thread];" for name, item in arrays.items()]
        declared = {item.name for node in per_thread for item in declared_names(node)}
        kept_copies = [
            f"{item.array}[emu_thread] = {name};"
            for name, item in arrays.items()
            if item.copied and (name in declared or self._uniform.changed_within(name, begin, end))
        ]
        returns = [item for node in region for item in descendants(node) if item.type == "return_statement"]
        self._number += 1
        label = f"emu_next_{self._number}"
        # In a loop around barriers a thread may have left in the turn before.
        may_have_left = self._first_return is not None and (self._first_return < begin or self._loop_depth > 0)
        skip = "if (emu_left[emu_thread]) continue;" if may_have_left else ""
        loop = "EMU_EACH_THREAD" if accesses.writes else "EMU_EACH_THREAD_ALONE"
        self._out.append(f"{loop} {{ EMU_THREAD_VARIABLES {skip} {' '.join(aliases)} {repeated} {{")
        for node in region:
            replaced = [(item.start_byte, item.end_byte, f"{{ emu_left[emu_thread] = true; goto {label}; }}") for item in returns]
            text = (
                " ".join(self._assignment(item) for item in declared_names(node))
                if node in per_thread
                else self._text(node.start_byte, node.end_byte, replaced)
            )
            self._out.append(self._line(node) + text)
        self._out.append(f"}} {' '.join(kept_copies)} {f'{label}: ;' if returns else ''} }}")
        region.clear()
        return _Interval((accesses,), (accesses,))

    def _repeated(self, used: set[str]) -> str:
        """The declarations of earlier loops that are computed again for this one, and those that they need; adds these to `used`."""
        texts: list[str] = []
        for node in reversed([item for scope in self._scopes for item in scope.computed]):
            if any(item.name in used for item in declared_names(node)):
                used.update(names_in(node))
                texts.insert(0, f"[[maybe_unused]] {self._text(node.start_byte, node.end_byte)}")
        return " ".join(texts)

    def _is_used_elsewhere(self, node: Node, scope: Node, begin: int, end: int) -> bool:
        """Return whether a later loop needs the names of this declaration."""
        for places in (self._places[declared.name] for declared in declared_names(node)):
            at = [bisect_left(places, byte) for byte in (scope.start_byte, begin, end, scope.end_byte)]
            if at[0] < at[1] or at[2] < at[3]:
                return True
        return False

    def _make_arrays(self, node: Node) -> None:
        """Before the loop that declares them: an element for each thread, of the type that the declaration gives."""
        specifiers = self._text(node.start_byte, declared_names(node)[0].declarator.start_byte)
        if re.search(r"\b(?:auto|static|volatile|register|thread_local)\b", specifiers):
            raise NotPossible("a variable whose type is not written down")
        for declared in declared_names(node):
            if declared.is_reference:
                raise NotPossible("a reference that lives across a barrier")
            if self._uniform.is_parameter(declared.name) or any(declared.name in scope.arrays for scope in self._scopes):
                raise NotPossible("a variable that hides another")
            array = self._array_name(declared.name)
            kind = f"{array}_type"
            before = self._text(declared.declarator.start_byte, declared.identifier.start_byte)
            behind = self._text(declared.identifier.end_byte, declared.declarator.end_byte)
            self._out.append(
                f"{self._line(node)}typedef {specifiers} {before}{kind}{behind};"
                f" std::remove_cv_t<{kind}>* const __restrict {array} = ::emu::per_thread<std::remove_cv_t<{kind}>>();"
            )
            # An object may change by its own functions, an array by its address.
            copied = (
                not declared.is_array and not self._uniform.is_pointed_to(declared.name) and _NUMBER.search(specifiers + before) is not None
            )
            self._scopes[-1].arrays[declared.name] = _PerThread(array, copied)

    def _assignment(self, declared: Declared) -> str:
        kind = f"{self._scopes[-1].arrays[declared.name].array}_type"
        if declared.value is None:
            return ";"
        value = self._text(declared.value.start_byte, declared.value.end_byte)
        if declared.is_array:
            return f"{{ std::remove_cv_t<{kind}> emu_first = {value}; __builtin_memcpy(&{declared.name}, &emu_first, sizeof emu_first); }}"
        if declared.value.type in ("initializer_list", "argument_list"):
            return f"{declared.name} = {kind}{value};"
        return f"{declared.name} = {value};"

    def _text(self, begin: int, end: int, replaced: Iterable[tuple[int, int, str]] = ()) -> str:
        return self._edited(begin, end, [edit for edit in replaced if begin <= edit[0] < end])

    def _line(self, node: Node) -> str:
        # 3: as in a system header, g++ gives no warnings; it has given those of the first body.
        return f'\n# {node.start_point[0] + 1} "{self._path}" 3\n'


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise NotPossible(f"a {node.type} without {name}")
    return child
