"""PTX instructions with rules of their own for operands or modifiers, as C++ statements: on registers, on memory, of a warp or block."""

from collections.abc import Collection

from grader_extensions.emulated_cuda.inline_ptx import Address, AsmParameter, Instruction, Operand, Pair, Register, Sink, Vector
from grader_extensions.emulated_cuda.ptx_instructions import ELSEWHERE, FLAGS, IGNORED, NARROW, TYPES, PtxScope, PtxUnsupported

COMPARISONS = {
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")},
    **{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"},
}
COMBINE = {"and": "&&", "or": "||", "xor": "!="}
ROUNDING = {"rni": 0, "rzi": FLAGS["rz"], "rmi": FLAGS["rm"], "rpi": FLAGS["rp"]}
INTEGER_ROUNDING = 512  # as in emu/ptx/values.h
UNITS = {8: "b8", 16: "b16", 32: "b32", 64: "b64"}
SHARED = ("shared", "shared::cta", "shared::cluster")
SPACES = {"global", *SHARED, "const", "local"}
ORDERS = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
SCOPES = {"cta", "gpu", "sys", "cluster"}
CACHES = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "noftz"}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
ATOMICS = {"add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"}
BLOCK_SCALED = f"the emulated device has no tensor cores for block-scaled numbers (mma with .block_scale or .kind); {ELSEWHERE}"
VOLTA = f"the emulated device has no m8n8k4 on fp16, which only Volta runs on its tensor cores; use m16n8k8 or m16n8k16, or {ELSEWHERE}"


def _modifiers(op: Instruction) -> list[str]:
    return op.opcode.split(".")[1:]


def refuse(op: Instruction, modifier: str = "") -> PtxUnsupported:
    """A form that is not there."""
    form = f"'.{modifier}' of the PTX instruction '{op.opcode}'" if modifier else f"this form of the PTX instruction '{op.opcode}'"
    return PtxUnsupported(op.position, f"the emulated device does not know {form}; {ELSEWHERE}")


def _last_type(op: Instruction, types: tuple[str, ...] = tuple(TYPES)) -> str:
    matches = [part for part in _modifiers(op) if part in types]
    if not matches:
        raise refuse(op)
    return matches[-1]


def _choice(op: Instruction, names: Collection[str]) -> str:
    """The first modifier that is one of these."""
    for part in _modifiers(op):
        if part in names:
            return part
    raise refuse(op)


def _accept(op: Instruction, allowed: set[str]) -> None:
    for part in _modifiers(op):
        if part not in allowed:
            raise refuse(op, part)


def need(op: Instruction, *counts: int) -> None:
    """Refuse any other number of operands."""
    if len(op.operands) not in counts:
        raise PtxUnsupported(
            op.position, f"'{op.opcode}' has {len(op.operands)} operands, not {' or '.join(str(count) for count in counts)}"
        )


def _parts_of(operand: Operand, op: Instruction) -> tuple[Operand, ...]:
    """The elements of a vector; a single operand is one of one element."""
    if isinstance(operand, Address):
        raise refuse(op)
    return operand.parts if isinstance(operand, Vector) else (operand,)


def _move(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    type_ = _last_type(op)
    _accept(op, {type_})
    to, source = op.operands
    if not isinstance(to, Vector) and not isinstance(source, Vector):
        return scope.write(to, type_, scope.read(source, type_, op), op)
    vector = to if isinstance(to, Vector) else source
    assert isinstance(vector, Vector)
    part = UNITS.get(TYPES[type_][1] // len(vector.parts))
    if part is None or (isinstance(to, Vector) and isinstance(source, Vector)):
        raise refuse(op)
    bits = TYPES[part][1]
    if isinstance(source, Vector):
        terms = [f"static_cast<uint64_t>({scope.read(element, part, op)}) << {bits * at}" for at, element in enumerate(source.parts)]
        return scope.write(to, f"u{TYPES[type_][1]}", f"static_cast<uint{TYPES[type_][1]}_t>({' | '.join(terms)})", op)
    assert isinstance(to, Vector)
    whole = f"static_cast<uint64_t>({scope.read(source, 'b' + str(TYPES[type_][1]), op)})"
    text = f"{{ const uint64_t emu_w = {whole}; "
    for at, element in enumerate(to.parts):
        if not isinstance(element, Sink):
            text += scope.write(element, part, f"static_cast<uint{bits}_t>(emu_w >> {bits * at})", op)
    return text + "} "


def _compare(scope: PtxScope, op: Instruction) -> str:
    words = _modifiers(op)
    types = [word for word in words if word in TYPES]
    name = COMPARISONS[_choice(op, COMPARISONS)]
    combine = next((word for word in words if word in COMBINE), "")
    sets = op.opcode.startswith("set.")
    if len(types) != (2 if sets else 1) or types[-1] in ("f16x2", "bf16x2", "pred"):
        raise refuse(op)
    _accept(op, {*types, *COMPARISONS, *COMBINE, "ftz"})
    need(op, 4 if combine else 3)
    to, a, b, *third = op.operands
    cpp = TYPES[types[-1]][0]
    flags = FLAGS["ftz"] if "ftz" in words else 0
    test = f"::emu::ptx::emu_{name}<{cpp}, {flags}>({scope.read(a, types[-1], op)}, {scope.read(b, types[-1], op)})"
    combined = f" {COMBINE[combine]} {scope.read(third[0], 'pred', op)}" if third else ""
    if sets:
        if types[0] not in ("u32", "s32", "f32"):
            raise refuse(op)
        yes, no = ("1.0f", "0.0f") if types[0] == "f32" else ("0xffffffffu", "0u")
        return scope.write(to, types[0], f"({test}{combined}) ? {yes} : {no}", op)
    text = f"{{ const bool emu_t = {test}; "
    if not isinstance(to, Pair):
        return text + scope.write(to, "pred", f"emu_t{combined}", op) + "} "
    # Both results are worked out before either is written: the third operand may be one of them.
    text += f"const bool emu_u = !emu_t{combined}; " + scope.write(to.first, "pred", f"emu_t{combined}", op)
    return text + scope.write(to.second, "pred", "emu_u", op) + "} "


def _choose_by_sign(scope: PtxScope, op: Instruction) -> str:
    need(op, 4)
    types = [word for word in _modifiers(op) if word in TYPES]
    if len(types) != 2 or types[1] not in ("s32", "f32"):
        raise refuse(op)
    _accept(op, {*types, "ftz"})
    to, a, b, c = op.operands
    return scope.write(
        to, types[0], f"{scope.read(c, types[1], op)} >= 0 ? {scope.read(a, types[0], op)} : {scope.read(b, types[0], op)}", op
    )


def _dot_product(scope: PtxScope, op: Instruction) -> str:
    need(op, 4)
    name, *words = op.opcode.split(".")
    types = [word for word in words if word in ("u32", "s32")]
    if len(types) != 2:
        raise refuse(op)
    _accept(op, {"u32", "s32", *(("lo", "hi") if name == "dp2a" else ())})
    signs = ", ".join("true" if type_ == "s32" else "false" for type_ in types)
    half = f", {'true' if 'hi' in words else 'false'}" if name == "dp2a" else ""
    to, *inputs = op.operands
    read = ", ".join(scope.read(operand, "b32", op) for operand in inputs)
    return scope.write(to, "b32", f"::emu::ptx::emu_{name}<{signs}{half}>({read})", op)


def _permute(scope: PtxScope, op: Instruction) -> str:
    need(op, 4)
    modes = ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    _accept(op, {"b32", *modes})
    mode = next((modes.index(word) for word in _modifiers(op) if word in modes), 0)
    to, *inputs = op.operands
    return scope.write(to, "b32", f"::emu::ptx::emu_prmt<{mode}>({', '.join(scope.read(operand, 'b32', op) for operand in inputs)})", op)


def _test_property(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind, type_ = _choice(op, kinds), _last_type(op, ("f32", "f64"))
    _accept(op, {*kinds, "f32", "f64"})
    value = f"::emu::ptx::emu_testp_{kind}<{TYPES[type_][0]}, 0>({scope.read(op.operands[1], type_, op)})"
    return scope.write(op.operands[0], "pred", value, op)


def _convert(scope: PtxScope, op: Instruction) -> str:
    words = _modifiers(op)
    types = [word for word in words if word in TYPES or word in NARROW]
    rounding = [word for word in words if word in ROUNDING]
    if words[:1] == ["pack"]:
        return _convert_packed(scope, op)
    _accept(op, {*types, *ROUNDING, *FLAGS, *IGNORED} - {"approx", "full", "NaN"})
    if len(types) != 2:
        raise refuse(op)
    flags = sum(FLAGS[word] for word in words if word in FLAGS) + sum(ROUNDING[word] + INTEGER_ROUNDING for word in rounding)
    to, source = types
    fp8, pairs = ("e4m3x2", "e5m2x2"), ("f16x2", "bf16x2")
    if source == "f32" and to in (*fp8, *pairs):
        function = f"convert_two<{_kind(to)}, "
    elif source == "f16x2" and to in fp8:
        function = f"pack_fp8<{_kind(to)}, "
    elif source in fp8 and to == "f16x2":
        function = f"unpack_fp8<{_kind(source)}, "
    elif (to, source) == ("tf32", "f32"):
        function = "to_tf32<"
    elif {to, source} & {*NARROW, *pairs, "pred"} or any(item[0] == "b" and item != "bf16" for item in types) or FLAGS["rna"] & flags:
        raise refuse(op)
    else:
        function = f"convert<{_kind(to)}, {_kind(source)}, "
    need(op, 3 if function.startswith("convert_two") else 2)
    read = ", ".join(scope.read(item, source, op) for item in op.operands[1:])
    return scope.write(op.operands[0], to, f"::emu::ptx::emu_{function}{flags}>({read})", op)


def _kind(type_: str) -> str:
    """The C++ type by which a conversion names one of PTX."""
    return f"::emu::ptx::{type_[:4].capitalize()}" if type_ in NARROW else TYPES[type_][0]


def _convert_packed(scope: PtxScope, op: Instruction) -> str:
    """`cvt.pack.sat`: two saturated integers, and the rest of a third operand behind them."""
    types = [word for word in _modifiers(op) if word in TYPES]
    _accept(op, {"pack", "sat", *types})
    if len(types) not in (2, 3) or types[0] not in ("s8", "u8", "s16", "u16") or types[1] != "s32" or "sat" not in _modifiers(op):
        raise refuse(op)
    need(op, len(types) + 1)
    to, a, b, *rest = op.operands
    third = scope.read(rest[0], "b32", op) if rest else "0u"
    value = f"::emu::ptx::emu_pack<{TYPES[types[0]][0]}>({scope.read(a, 's32', op)}, {scope.read(b, 's32', op)}, {third})"
    return scope.write(to, "b32", value, op)


def _branch(scope: PtxScope, op: Instruction) -> str:
    _accept(op, {"uni"})
    need(op, 1)
    (target,) = op.operands
    if not isinstance(target, Register):
        raise refuse(op)
    return f"goto emu_l_{label(target.name)}; "


def label(name: str) -> str:
    """A label's name as C++ has it."""
    return name.replace("$", "_")


def _is_hint(word: str) -> bool:
    return word.startswith(("L1::", "L2::"))


def _address(scope: PtxScope, operand: Operand, op: Instruction, *, shared: bool) -> str:
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
    words = [word for word in _modifiers(op) if not _is_hint(word)]
    type_ = _last_type(op)
    for word in words:
        if word not in {type_, *allowed, *SPACES, *ORDERS, *SCOPES, *CACHES, *VECTORS}:
            raise refuse(op, word)
    count = next((VECTORS[word] for word in words if word in VECTORS), 1)
    if type_ == "pred":
        raise refuse(op)
    return type_, count, bool(set(words) & set(SHARED)), bool(set(words) & (ORDERS - {"weak"}))


def _fence_call(op: Instruction) -> str:
    return "__threadfence_block(); " if "cta" in _modifiers(op) else "__threadfence(); "


def _release(op: Instruction) -> str:
    return _fence_call(op) if {"release", "acq_rel", "sc"} & set(_modifiers(op)) else ""


def _load(scope: PtxScope, op: Instruction) -> str:
    need(op, 2, 3)
    type_, count, shared, ordered = _access(op, set())
    to = _parts_of(op.operands[0], op)
    if len(to) != count:
        raise refuse(op)
    where = _address(scope, op.operands[1], op, shared=shared)
    function = "load_ordered" if ordered else "load"
    text = f"{{ {TYPES[type_][0]} emu_v[{count}]; ::emu::ptx::emu_{function}(emu_v, {where}); "
    return text + "".join(scope.write(element, type_, f"emu_v[{at}]", op) for at, element in enumerate(to)) + "} "


def _store(scope: PtxScope, op: Instruction) -> str:
    need(op, 2, 3)
    type_, count, shared, ordered = _access(op, set())
    values = _parts_of(op.operands[1], op)
    if len(values) != count:
        raise refuse(op)
    read = ", ".join(scope.read(element, type_, op) for element in values)
    function = "store_ordered" if ordered else "store"
    where = _address(scope, op.operands[0], op, shared=shared)
    return f"{{ {_release(op)}const {TYPES[type_][0]} emu_v[{count}] = {{{read}}}; ::emu::ptx::emu_{function}({where}, emu_v); }} "


def _atomic(scope: PtxScope, op: Instruction) -> str:
    type_, count, shared, _ = _access(op, ATOMICS)
    name, returns = _choice(op, ATOMICS), op.opcode.startswith("atom")
    if not returns and name in ("exch", "cas"):
        raise refuse(op)
    operands = list(op.operands)
    to: tuple[Operand, ...] = _parts_of(operands.pop(0), op) if returns else (Sink(),) * count
    wanted = 3 if name == "cas" else 2
    if len(operands) not in (wanted, wanted + 1) or len(to) != count:
        raise refuse(op)
    where = _address(scope, operands[0], op, shared=shared)
    values = [_parts_of(elements, op) for elements in operands[1:wanted]]
    if any(len(elements) != count for elements in values):
        raise refuse(op)
    cpp = TYPES[type_][0]
    text = f"{{ {_release(op)}auto* emu_a = ::emu::ptx::emu_aligned<{cpp}, {count}>({where}); "
    for at in range(count):
        read = ", ".join(scope.read(elements[at], type_, op) for elements in values)
        text += scope.write(to[at], type_, f"::emu::ptx::emu_atomic_{name}(emu_a + {at}, {read})", op)
    return text + "} "


def _convert_address(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    _accept(op, {"to", *SPACES, "param", "u64", "u32"})
    words = _modifiers(op)
    type_ = _last_type(op)
    value = scope.read(op.operands[1], type_, op)
    if set(words) & set(SHARED):
        value = f"::emu::ptx::emu_{'to_shared' if 'to' in words else 'from_shared'}({value})"
    return scope.write(op.operands[0], type_, f"static_cast<{TYPES[type_][0]}>({value})", op)


def _is_in_space(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    _accept(op, {"global", *SHARED, "local"})
    space = _modifiers(op)[-1].split("::")[0]
    return scope.write(op.operands[0], "pred", f"::emu::ptx::emu_is_{space}_space({scope.read(op.operands[1], 'b64', op)})", op)


def nothing(scope: PtxScope, op: Instruction) -> str:
    """Hints to caches and to the launch of the next grid."""
    return ";" if scope else ""


def policy(scope: PtxScope, op: Instruction) -> str:
    """`createpolicy`: a policy changes no result."""
    return scope.write(op.operands[0], "u64", "uint64_t{0}", op)


def _fence(scope: PtxScope, op: Instruction) -> str:
    return _fence_call(op) if scope else ""


def _asynchronous_copy(scope: PtxScope, op: Instruction) -> str:
    words = _modifiers(op)
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
    size_bytes = scope.read(size, "u32", op)
    if hinted:
        rest = rest[:-1]
    if rest and scope.is_predicate(rest[0]):
        size_bytes = f"({scope.read(rest[0], 'pred', op)} ? 0u : {size_bytes})"
    elif rest:
        size_bytes = scope.read(rest[0], "u32", op)
    where = f"{_address(scope, to, op, shared=True)}, {_address(scope, source, op, shared=False)}"
    only16 = "true" if "cg" in words else "false"
    return f"::emu::ptx::emu_copy_async<{only16}>({where}, {scope.read(size, 'u32', op)}, {size_bytes}); "


def _matrix_memory(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    _accept(op, {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", *SHARED, "b16"})
    words = _modifiers(op)
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    loads = op.opcode.startswith("ldmatrix")
    registers, where = op.operands if loads else reversed(op.operands)
    parts = _parts_of(registers, op)
    if not {"m8n8", "b16"} <= set(words) or len(parts) != count:
        raise refuse(op)
    transposed = "true" if "trans" in words else "false"
    pointer = _address(scope, where, op, shared=True)
    if loads:
        text = f"{{ uint32_t emu_v[{count}]; ::emu::ptx::emu_ldmatrix<{count}, {transposed}>(emu_v, {pointer}); "
        return text + "".join(scope.write(register, "b32", f"emu_v[{at}]", op) for at, register in enumerate(parts)) + "} "
    values = ", ".join(scope.read(register, "b32", op) for register in parts)
    return f"{{ const uint32_t emu_v[{count}] = {{{values}}}; ::emu::ptx::emu_stmatrix<{count}, {transposed}>({pointer}, emu_v); }} "


def _matrix_transpose(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    _accept(op, {"sync", "aligned", "m8n8", "trans", "b16"})
    return scope.write(op.operands[0], "b32", f"::emu::ptx::emu_movmatrix({scope.read(op.operands[1], 'b32', op)})", op)


def _block_barrier(scope: PtxScope, op: Instruction) -> str:
    words = [word for word in _modifiers(op) if word not in ("cta", "aligned")]
    if words == ["warp", "sync"]:
        need(op, 1)
        return f"__syncwarp({scope.read(op.operands[0], 'b32', op)}); "
    operands = list(op.operands)
    if words == ["sync"] or words == ["arrive"]:
        need(op, *((1, 2) if words == ["sync"] else (2,)))
        count = scope.read(operands[1], "u32", op) if len(operands) > 1 else "0u"
        arrives = "true" if words == ["arrive"] else "false"
        return f"::emu::ptx::emu_barrier({scope.read(operands[0], 'u32', op)}, {count}, true, {arrives}); "
    if len(words) != 3 or words[0] != "red" or words[1] not in ("popc", "and", "or") or words[2] not in ("u32", "pred"):
        raise refuse(op)
    need(op, 3, 4)
    to, number, *middle, vote = operands
    count = scope.read(middle[0], "u32", op) if middle else "0u"
    call = f"::emu::ptx::emu_barrier({scope.read(number, 'u32', op)}, {count}, {scope.read(vote, 'pred', op)}, false)"
    member = {"popc": "count", "and": "all", "or": "any"}[words[1]]
    return scope.write(to, words[2], f"{call}.{member}", op)


def _shuffle(scope: PtxScope, op: Instruction) -> str:
    need(op, 5)
    modes = ["up", "down", "bfly", "idx"]
    _accept(op, {"sync", "b32", *modes})
    mode = modes.index(_choice(op, modes))
    _choice(op, ("sync",))
    to, *inputs = op.operands
    arguments = ", ".join(scope.read(operand, "b32", op) for operand in inputs)
    return f"{{ bool emu_p; const uint32_t emu_v = ::emu::ptx::emu_shuffle<{mode}>({arguments}, emu_p); " + _write_pair(scope, op, to)


def _write_pair(scope: PtxScope, op: Instruction, to: Operand) -> str:
    """Write emu_v and, where it is wanted, the predicate emu_p; end the block that declares them."""
    if not isinstance(to, Pair):
        return scope.write(to, "b32", "emu_v", op) + "} "
    return scope.write(to.first, "b32", "emu_v", op) + scope.write(to.second, "pred", "emu_p != 0", op) + "} "


def _vote(scope: PtxScope, op: Instruction) -> str:
    need(op, 3)
    functions = {"all": "__all_sync", "any": "__any_sync", "uni": "__uni_sync", "ballot": "__ballot_sync"}
    _accept(op, {"sync", *functions, "pred", "b32"})
    name = _choice(op, functions)
    _choice(op, ("sync",))
    to, predicate, mask = op.operands
    call = f"{functions[name]}({scope.read(mask, 'b32', op)}, {scope.read(predicate, 'pred', op)})"
    return scope.write(to, "b32", call, op) if name == "ballot" else scope.write(to, "pred", f"{call} != 0", op)


def _match(scope: PtxScope, op: Instruction) -> str:
    need(op, 3)
    _accept(op, {"any", "all", "sync", "b32", "b64"})
    to, value, mask = op.operands
    arguments = f"{scope.read(mask, 'b32', op)}, {scope.read(value, _last_type(op), op)}"
    if "any" in _modifiers(op):
        return scope.write(to, "b32", f"__match_any_sync({arguments})", op)
    return f"{{ int emu_p; const uint32_t emu_v = __match_all_sync({arguments}, &emu_p); " + _write_pair(scope, op, to)


def _reduce(scope: PtxScope, op: Instruction) -> str:
    need(op, 3)
    names = {"add", "min", "max", "and", "or", "xor"}
    _accept(op, {"sync", *names, "u32", "s32", "b32"})
    name, type_ = _choice(op, names), _last_type(op)
    to, value, mask = op.operands
    return scope.write(to, type_, f"__reduce_{name}_sync({scope.read(mask, 'b32', op)}, {scope.read(value, type_, op)})", op)


def _elect(scope: PtxScope, op: Instruction) -> str:
    need(op, 2)
    _accept(op, {"sync"})
    to, mask = op.operands
    if not isinstance(to, Pair):
        raise refuse(op)
    text = f"{{ const uint32_t emu_v = ::emu::ptx::emu_elect({scope.read(mask, 'b32', op)}); const bool emu_p = emu_v == ::emu::lane(); "
    return text + _write_pair(scope, op, to)


def _active_mask(scope: PtxScope, op: Instruction) -> str:
    need(op, 1)
    return scope.write(op.operands[0], "b32", "__activemask()", op)


def _sleep(scope: PtxScope, op: Instruction) -> str:
    need(op, 1)
    return f"__nanosleep({scope.read(op.operands[0], 'u32', op)}); "


def _end_thread(scope: PtxScope, op: Instruction) -> str:
    need(op, 0)
    return "::emu::ptx::emu_exit(); " if scope and op.opcode == "exit" else "__trap(); "


def _matrix_product(scope: PtxScope, op: Instruction) -> str:
    if "block_scale" in _modifiers(op) or any(word.startswith("kind::") for word in _modifiers(op)):
        raise PtxUnsupported(op.position, BLOCK_SCALED)
    need(op, 4)
    words = [word for word in _modifiers(op) if word not in ("sync", "aligned", "row", "col", "satfinite", "popc", "xor", "and")]
    types = words[1:]
    shape = words[0][1:].replace("n", " ").replace("k", " ").split() if words else []
    tags = {"f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s4", "u4", "b1", "e4m3", "e5m2", "s32"}
    if len(types) != 4 or len(shape) != 3 or not set(types) <= tags or not all(part.isdigit() for part in shape):
        raise refuse(op)
    if shape == ["8", "8", "4"] and types[1] == "f16":
        raise PtxUnsupported(op.position, VOLTA)
    if "row.col" not in op.opcode:
        raise refuse(op)
    result, a, b, c = types
    binary = "b1_xor" if "xor" in _modifiers(op) else "b1_and"
    a, b = (binary if item == "b1" else item for item in (a, b))
    scope.headers.add("emu/tensor/mma.h")
    unit, cpp = ("b64", "uint64_t") if result == "f64" else ("b32", "uint32_t")
    arrays = [[scope.read(element, unit, op) for element in _parts_of(item, op)] for item in op.operands[1:]]
    into = op.operands[0]
    if not isinstance(into, Vector):
        raise refuse(op)
    listed = zip("abc", arrays, strict=True)
    declared = " ".join(f"const {cpp} emu_{name}[{len(values)}] = {{{', '.join(values)}}};" for name, values in listed)
    template = ", ".join(
        (*shape, *(f"::emu::ptx::{item}" for item in (a, b, c, result)), "true" if "satfinite" in _modifiers(op) else "false")
    )
    text = f"{{ {cpp} emu_d[{len(into.parts)}]; {declared} ::emu::ptx::mma<{template}>(emu_d, emu_a, emu_b, emu_c); "
    return text + "".join(scope.write(item, unit, f"emu_d[{at}]", op) for at, item in enumerate(into.parts)) + "} "


EMITTERS = {
    "mov": _move,
    "setp": _compare,
    "set": _compare,
    "slct": _choose_by_sign,
    "dp4a": _dot_product,
    "dp2a": _dot_product,
    "prmt": _permute,
    "testp": _test_property,
    "cvt": _convert,
    "bra": _branch,
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "cvta": _convert_address,
    "isspacep": _is_in_space,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "pmevent"), nothing),
    "createpolicy": policy,
    "membar": _fence,
    "fence": _fence,
    "cp": _asynchronous_copy,
    "ldmatrix": _matrix_memory,
    "stmatrix": _matrix_memory,
    "movmatrix": _matrix_transpose,
    "bar": _block_barrier,
    "barrier": _block_barrier,
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "activemask": _active_mask,
    "nanosleep": _sleep,
    **dict.fromkeys(("exit", "trap", "brkpt"), _end_thread),
    "mma": _matrix_product,
}
