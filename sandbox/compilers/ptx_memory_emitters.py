"""PTX instructions on memory, as C++ statements."""

from sandbox.compilers.ptx_emitters import SHARED, accept, last_type, modifiers, need, parts_of, refuse
from sandbox.compilers.ptx_instructions import TYPES
from sandbox.compilers.ptx_scope import PtxScope
from sandbox.compilers.ptx_tree import Address, AsmParameter, Instruction, Operand, Register, Sink

SPACES = {"global", *SHARED, "const", "local"}
ORDERS = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
SCOPES = {"cta", "gpu", "sys", "cluster"}
CACHES = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "noftz"}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
ATOMICS = {"add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"}


def _is_hint(word: str) -> bool:
    return word.startswith(("L1::", "L2::"))


def address(scope: PtxScope, operand: Operand, op: Instruction, *, shared: bool) -> str:
    """The C++ pointer that an address operand means."""
    if not isinstance(operand, Address) or operand.has_coordinates:
        raise refuse(op)
    terms = []
    for term in operand.terms:
        short = shared and isinstance(term, (AsmParameter, Register)) and scope.local(term, op).bits == 32
        terms.append(f"static_cast<uint64_t>({scope.read(term, 'b32' if short else 'b64', op)})")
    joined = " + ".join(terms)
    return f"::emu::ptx::emu_shared_address(static_cast<uint32_t>({joined}))" if shared else f"reinterpret_cast<char*>({joined})"


def _access(op: Instruction, allowed: set[str]) -> tuple[str, int, bool, bool]:
    """Type, number of elements, whether the memory is shared, whether the access is one of synchronisation."""
    words = [word for word in modifiers(op) if not _is_hint(word)]
    type_ = last_type(op)
    for word in words:
        if word not in {type_, *allowed, *SPACES, *ORDERS, *SCOPES, *CACHES, *VECTORS}:
            raise refuse(op, word)
    count = next((VECTORS[word] for word in words if word in VECTORS), 1)
    if type_ == "pred":
        raise refuse(op)
    return type_, count, bool(set(words) & set(SHARED)), bool(set(words) & (ORDERS - {"weak"}))


def _fence(op: Instruction) -> str:
    return "__threadfence_block(); " if "cta" in modifiers(op) else "__threadfence(); "


def _release(op: Instruction) -> str:
    """What makes a write tell others of those before it."""
    return _fence(op) if {"release", "acq_rel", "sc"} & set(modifiers(op)) else ""


def load(scope: PtxScope, op: Instruction) -> str:
    """`ld` and `ldu`."""
    need(op, 2, 3)
    type_, count, shared, ordered = _access(op, set())
    to = parts_of(op.operands[0], op)
    if len(to) != count:
        raise refuse(op)
    where = address(scope, op.operands[1], op, shared=shared)
    function = "load_ordered" if ordered else "load"
    text = f"{{ {TYPES[type_][0]} emu_v[{count}]; ::emu::ptx::emu_{function}(emu_v, {where}); "
    return text + "".join(scope.write(one, type_, f"emu_v[{at}]", op) for at, one in enumerate(to)) + "} "


def store(scope: PtxScope, op: Instruction) -> str:
    """`st`."""
    need(op, 2, 3)
    type_, count, shared, ordered = _access(op, set())
    values = parts_of(op.operands[1], op)
    if len(values) != count:
        raise refuse(op)
    read = ", ".join(scope.read(one, type_, op) for one in values)
    function = "store_ordered" if ordered else "store"
    where = address(scope, op.operands[0], op, shared=shared)
    return f"{{ {_release(op)}const {TYPES[type_][0]} emu_v[{count}] = {{{read}}}; ::emu::ptx::emu_{function}({where}, emu_v); }} "


def atomic(scope: PtxScope, op: Instruction) -> str:
    """`atom` and `red`."""
    type_, count, shared, _ = _access(op, ATOMICS)
    name = next((word for word in modifiers(op) if word in ATOMICS), None)
    returns = op.opcode.startswith("atom")
    if name is None or (not returns and name in ("exch", "cas")):
        raise refuse(op)
    given = list(op.operands)
    to: tuple[Operand, ...] = parts_of(given.pop(0), op) if returns else (Sink(),) * count
    wanted = 3 if name == "cas" else 2
    if len(given) not in (wanted, wanted + 1) or len(to) != count:
        raise refuse(op)
    where = address(scope, given[0], op, shared=shared)
    values = [parts_of(one, op) for one in given[1:wanted]]
    if any(len(one) != count for one in values):
        raise refuse(op)
    cpp = TYPES[type_][0]
    text = f"{{ {_release(op)}auto* emu_a = ::emu::ptx::emu_aligned<{cpp}, {count}>({where}); "
    for at in range(count):
        read = ", ".join(scope.read(one[at], type_, op) for one in values)
        text += scope.write(to[at], type_, f"::emu::ptx::emu_atomic_{name}(emu_a + {at}, {read})", op)
    return text + "} "


def convert_address(scope: PtxScope, op: Instruction) -> str:
    """`cvta`."""
    need(op, 2)
    accept(op, {"to", *SPACES, "param", "u64", "u32"})
    words = modifiers(op)
    type_ = last_type(op)
    value = scope.read(op.operands[1], type_, op)
    if set(words) & set(SHARED):
        value = f"::emu::ptx::emu_{'to_shared' if 'to' in words else 'from_shared'}({value})"
    return scope.write(op.operands[0], type_, f"static_cast<{TYPES[type_][0]}>({value})", op)


def is_in_space(scope: PtxScope, op: Instruction) -> str:
    """`isspacep`."""
    need(op, 2)
    accept(op, {"global", *SHARED, "local"})
    space = modifiers(op)[-1].split("::")[0]
    return scope.write(op.operands[0], "pred", f"::emu::ptx::emu_is_{space}_space({scope.read(op.operands[1], 'b64', op)})", op)


def nothing(scope: PtxScope, op: Instruction) -> str:
    """Hints to caches and to the launch of the next grid."""
    return ";" if scope else ""


def policy(scope: PtxScope, op: Instruction) -> str:
    """`createpolicy`: a policy changes no result."""
    return scope.write(op.operands[0], "u64", "uint64_t{0}", op)


def fence(scope: PtxScope, op: Instruction) -> str:
    """`membar` and `fence`."""
    return _fence(op) if scope else ""


def asynchronous_copy(scope: PtxScope, op: Instruction) -> str:
    """`cp.async`, its groups and its waits."""
    words = modifiers(op)
    if words[1:] == ["commit_group"]:
        return "::emu::copy_queue().commit(); "
    if words[1:] == ["wait_all"]:
        return "::emu::copy_queue().wait_all(); "
    if words[1:] == ["wait_group"]:
        need(op, 1)
        return f"::emu::copy_queue().wait_group({scope.read(op.operands[0], 'u32', op)}); "
    for word in words:
        if word not in {"async", "ca", "cg", "global", *SHARED} and not _is_hint(word):
            raise refuse(op, word)
    hinted = "L2::cache_hint" in words
    need(op, *((4, 5) if hinted else (3, 4)))
    to, source, size, *rest = op.operands
    taken = scope.read(size, "u32", op)
    if hinted:
        rest = rest[:-1]
    if rest and scope.is_predicate(rest[0]):
        taken = f"({scope.read(rest[0], 'pred', op)} ? 0u : {taken})"
    elif rest:
        taken = scope.read(rest[0], "u32", op)
    where = f"{address(scope, to, op, shared=True)}, {address(scope, source, op, shared=False)}"
    only16 = "true" if "cg" in words else "false"
    return f"::emu::ptx::emu_copy_async<{only16}>({where}, {scope.read(size, 'u32', op)}, {taken}); "


EMITTERS = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "cvta": convert_address,
    "isspacep": is_in_space,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "pmevent"), nothing),
    "createpolicy": policy,
    "membar": fence,
    "fence": fence,
    "cp": asynchronous_copy,
}
