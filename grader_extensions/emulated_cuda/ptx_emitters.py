"""PTX instructions with rules of their own for operands or modifiers, as C++ statements: on registers, on memory, of a warp or block."""

from collections.abc import Iterable

from grader_extensions.emulated_cuda.inline_ptx import Address, AsmParameter, Operand, Pair, Register, Sink, Vector
from grader_extensions.emulated_cuda.ptx_instructions import ELSEWHERE, FLAGS, IGNORED, NARROW, TYPES, PtxOperation

COMPARISONS = {
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")},
    **{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"},
}
COMBINE = {"and": "&&", "or": "||", "xor": "!="}
ROUNDING = {"rni": 0, "rzi": FLAGS["rz"], "rmi": FLAGS["rm"], "rpi": FLAGS["rp"]}
INTEGER_ROUNDING = 512  # as in emu/ptx/ptx.h
SHARED = ("shared", "shared::cta", "shared::cluster")
SPACES = {"global", *SHARED, "const", "local"}
ORDERS = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
SCOPES = {"cta", "gpu", "sys", "cluster"}
CACHES = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "noftz"}
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
ATOMICS = {"add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"}
BLOCK_SCALED = f"the emulated device has no tensor cores for block-scaled numbers (mma with .block_scale or .kind); {ELSEWHERE}"
VOLTA = f"the emulated device has no m8n8k4 on fp16, which only Volta runs on its tensor cores; use m16n8k8 or m16n8k16, or {ELSEWHERE}"


def label(name: str) -> str:
    """A label's name as C++ has it."""
    return f"emu_l_{name.replace('$', '_')}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _parts_of(operand: Operand, op: PtxOperation) -> tuple[Operand, ...]:
    """The elements of a vector; a single operand is one of one element."""
    if isinstance(operand, Address):
        raise op.refuse()
    return operand.parts if isinstance(operand, Vector) else (operand,)


def _write_each(op: PtxOperation, operands: Iterable[Operand], type_: str, array: str) -> str:
    """Write the elements of a C++ array; end the block that declares it."""
    return "".join(op.write(operand, type_, f"{array}[{at}]") for at, operand in enumerate(operands)) + "} "


def _write_pair(op: PtxOperation, to: Operand) -> str:
    """Write emu_v and, where it is wanted, the predicate emu_p; end the block that declares them."""
    if not isinstance(to, Pair):
        return op.write(to, "b32", "emu_v") + "} "
    return op.write(to.first, "b32", "emu_v") + op.write(to.second, "pred", "emu_p != 0") + "} "


def _move(op: PtxOperation) -> str:
    op.need(2)
    type_ = op.last_type()
    op.accept(type_)
    to, source = op.operands
    vectors = [operand for operand in op.operands if isinstance(operand, Vector)]
    if not vectors:
        return op.write(to, type_, op.read(source, type_))
    whole_bits = TYPES[type_][1]
    bits = whole_bits // len(vectors[0].parts)
    part = f"b{bits}"
    if part not in TYPES or len(vectors) == 2:
        raise op.refuse()
    if isinstance(source, Vector):
        terms = [f"static_cast<uint64_t>({op.read(element, part)}) << {bits * at}" for at, element in enumerate(source.parts)]
        return op.write(to, f"u{whole_bits}", f"static_cast<uint{whole_bits}_t>({' | '.join(terms)})")
    text = f"{{ const uint64_t emu_w = static_cast<uint64_t>({op.read(source, f'b{whole_bits}')}); "
    for at, element in enumerate(vectors[0].parts):
        if not isinstance(element, Sink):
            text += op.write(element, part, f"static_cast<uint{bits}_t>(emu_w >> {bits * at})")
    return text + "} "


def _compare(op: PtxOperation) -> str:
    name, type_ = COMPARISONS[op.choice(COMPARISONS)], op.last_type()
    if type_ in ("f16x2", "bf16x2", "pred"):
        raise op.refuse()
    op.accept(type_, *COMPARISONS, *COMBINE, "ftz")
    combine = next((COMBINE[word] for word in op.words if word in COMBINE), "")
    op.need(4 if combine else 3)
    to, a, b, *third = op.operands
    flags = FLAGS["ftz"] if "ftz" in op.words else 0
    combined = f" {combine} {op.read(third[0], 'pred')}" if third else ""
    text = f"{{ const bool emu_t = ::emu::ptx::emu_{name}<{TYPES[type_][0]}, {flags}>({op.reads((a, b), type_)}); "
    if not isinstance(to, Pair):
        return text + op.write(to, "pred", f"emu_t{combined}") + "} "
    # Both results are worked out before either is written: the third operand may be one of them.
    text += f"const bool emu_u = !emu_t{combined}; " + op.write(to.first, "pred", f"emu_t{combined}")
    return text + op.write(to.second, "pred", "emu_u") + "} "


def _dot_product(op: PtxOperation) -> str:
    op.need(4)
    types = [word for word in op.words if word in ("u32", "s32")]
    if len(types) != 2:
        raise op.refuse()
    op.accept("u32", "s32", *(("lo", "hi") if op.name == "dp2a" else ()))
    choices = [_bool(type_ == "s32") for type_ in types] + ([_bool("hi" in op.words)] if op.name == "dp2a" else [])
    return op.write(op.operands[0], "b32", f"::emu::ptx::emu_{op.name}<{', '.join(choices)}>({op.reads(op.operands[1:], 'b32')})")


def _permute(op: PtxOperation) -> str:
    op.need(4)
    modes = ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    op.accept("b32", *modes)
    mode = next((modes.index(word) for word in op.words if word in modes), 0)
    return op.write(op.operands[0], "b32", f"::emu::ptx::emu_prmt<{mode}>({op.reads(op.operands[1:], 'b32')})")


def _convert(op: PtxOperation) -> str:
    words = op.words
    types = [word for word in words if word in TYPES or word in NARROW]
    op.accept(*types, *ROUNDING, *({*FLAGS, *IGNORED} - {"approx", "full", "NaN"}))
    if len(types) != 2:
        raise op.refuse()
    flags = sum(FLAGS.get(word, 0) for word in words) + sum(ROUNDING[word] + INTEGER_ROUNDING for word in words if word in ROUNDING)
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
        raise op.refuse()
    else:
        function = f"convert<{_kind(to)}, {_kind(source)}, "
    op.need(3 if function.startswith("convert_two") else 2)
    return op.write(op.operands[0], to, f"::emu::ptx::emu_{function}{flags}>({op.reads(op.operands[1:], source)})")


def _kind(type_: str) -> str:
    """The C++ type by which a conversion names one of PTX."""
    return f"::emu::ptx::{type_[:4].capitalize()}" if type_ in NARROW else TYPES[type_][0]


def _branch(op: PtxOperation) -> str:
    op.accept("uni")
    op.need(1)
    (target,) = op.operands
    if not isinstance(target, Register):
        raise op.refuse()
    return f"goto {label(target.name)}; "


def _is_hint(word: str) -> bool:
    return word.startswith(("L1::", "L2::"))


def _address(op: PtxOperation, operand: Operand, *, shared: bool) -> str:
    if not isinstance(operand, Address) or operand.has_coordinates:
        raise op.refuse()
    terms = []
    for term in operand.terms:
        short = shared and isinstance(term, (AsmParameter, Register)) and op.local(term).bits == 32
        terms.append(f"static_cast<uint64_t>({op.read(term, 'b32' if short else 'b64')})")
    joined = " + ".join(terms)
    return f"::emu::ptx::emu_shared_address(static_cast<uint32_t>({joined}))" if shared else f"reinterpret_cast<char*>({joined})"


def _access(op: PtxOperation, *allowed: str) -> tuple[str, int, bool, str]:
    """Type, number of elements, whether the memory is shared, and what the name of a function for synchronisation ends with."""
    words = [word for word in op.words if not _is_hint(word)]
    type_ = op.last_type()
    for word in words:
        if word not in {type_, *allowed, *SPACES, *ORDERS, *SCOPES, *CACHES, *VECTORS}:
            raise op.refuse(word)
    if type_ == "pred":
        raise op.refuse()
    count = next((VECTORS[word] for word in words if word in VECTORS), 1)
    return type_, count, not set(words).isdisjoint(SHARED), "" if set(words).isdisjoint(ORDERS - {"weak"}) else "_ordered"


def _fence(op: PtxOperation) -> str:
    return "__threadfence_block(); " if "cta" in op.words else "__threadfence(); "


def _release(op: PtxOperation) -> str:
    return _fence(op) if {"release", "acq_rel", "sc"} & set(op.words) else ""


def _load(op: PtxOperation) -> str:
    op.need(2, 3)
    type_, count, shared, ordered = _access(op)
    to = _parts_of(op.operands[0], op)
    if len(to) != count:
        raise op.refuse()
    where = _address(op, op.operands[1], shared=shared)
    text = f"{{ {TYPES[type_][0]} emu_v[{count}]; ::emu::ptx::emu_load{ordered}(emu_v, {where}); "
    return text + _write_each(op, to, type_, "emu_v")


def _store(op: PtxOperation) -> str:
    op.need(2, 3)
    type_, count, shared, ordered = _access(op)
    values = _parts_of(op.operands[1], op)
    if len(values) != count:
        raise op.refuse()
    declared = f"const {TYPES[type_][0]} emu_v[{count}] = {{{op.reads(values, type_)}}};"
    where = _address(op, op.operands[0], shared=shared)
    return f"{{ {_release(op)}{declared} ::emu::ptx::emu_store{ordered}({where}, emu_v); }} "


def _atomic(op: PtxOperation) -> str:
    type_, count, shared, _ = _access(op, *ATOMICS)
    name, returns = op.choice(ATOMICS), op.name == "atom"
    if not returns and name in ("exch", "cas"):
        raise op.refuse()
    operands = list(op.operands)
    to: tuple[Operand, ...] = _parts_of(operands.pop(0), op) if returns else (Sink(),) * count
    wanted = 3 if name == "cas" else 2
    if len(operands) not in (wanted, wanted + 1) or len(to) != count:
        raise op.refuse()
    where = _address(op, operands[0], shared=shared)
    values = [_parts_of(elements, op) for elements in operands[1:wanted]]
    if any(len(elements) != count for elements in values):
        raise op.refuse()
    text = f"{{ {_release(op)}auto* emu_a = ::emu::ptx::emu_aligned<{TYPES[type_][0]}, {count}>({where}); "
    for at in range(count):
        read = op.reads((elements[at] for elements in values), type_)
        text += op.write(to[at], type_, f"::emu::ptx::emu_atomic_{name}(emu_a + {at}, {read})")
    return text + "} "


def _convert_address(op: PtxOperation) -> str:
    op.need(2)
    op.accept("to", *SPACES, "param", "u64", "u32")
    type_ = op.last_type()
    value = op.read(op.operands[1], type_)
    if set(op.words) & set(SHARED):
        value = f"::emu::ptx::emu_{'to_shared' if 'to' in op.words else 'from_shared'}({value})"
    return op.write(op.operands[0], type_, f"static_cast<{TYPES[type_][0]}>({value})")


def _is_in_space(op: PtxOperation) -> str:
    op.need(2)
    op.accept("global", *SHARED, "local")
    if not op.words:
        raise op.refuse()
    space = op.words[-1].partition("::")[0]
    return op.write(op.operands[0], "pred", f"::emu::ptx::emu_is_{space}_space({op.read(op.operands[1], 'b64')})")


def nothing(op: PtxOperation) -> str:
    """Hints to caches and to the launch of the next grid."""
    return ";"


def policy(op: PtxOperation) -> str:
    """`createpolicy`: a policy changes no result."""
    if not op.operands:
        raise op.refuse()
    return op.write(op.operands[0], "u64", "uint64_t{0}")


def _asynchronous_copy(op: PtxOperation) -> str:
    match op.words[1:]:
        case ["commit_group"]:
            return "::emu::copy_queue().commit(); "
        case ["wait_all"]:
            return "::emu::copy_queue().wait_all(); "
        case ["wait_group"]:
            op.need(1)
            return f"::emu::copy_queue().wait_group({op.read(op.operands[0], 'u32')}); "
    for word in op.words:
        if word not in {"async", "ca", "cg", "global", *SHARED} and not _is_hint(word):
            raise op.refuse(word)
    hinted = "L2::cache_hint" in op.words
    op.need(*((4, 5) if hinted else (3, 4)))
    to, source, size, *rest = op.operands
    copied = size_bytes = op.read(size, "u32")
    if hinted:
        rest = rest[:-1]
    if rest and op.is_predicate(rest[0]):
        copied = f"({op.read(rest[0], 'pred')} ? 0u : {size_bytes})"
    elif rest:
        copied = op.read(rest[0], "u32")
    where = f"{_address(op, to, shared=True)}, {_address(op, source, shared=False)}"
    return f"::emu::ptx::emu_copy_async<{_bool('cg' in op.words)}>({where}, {size_bytes}, {copied}); "


def _matrix_memory(op: PtxOperation) -> str:
    op.need(2)
    op.accept("sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", *SHARED, "b16")
    count = next((int(word[1]) for word in op.words if word in ("x1", "x2", "x4")), 0)
    loads = op.name == "ldmatrix"
    registers, where = op.operands if loads else reversed(op.operands)
    parts = _parts_of(registers, op)
    if not {"m8n8", "b16"} <= set(op.words) or len(parts) != count:
        raise op.refuse()
    call = f"::emu::ptx::emu_{op.name}<{count}, {_bool('trans' in op.words)}>"
    pointer = _address(op, where, shared=True)
    if loads:
        return f"{{ uint32_t emu_v[{count}]; {call}(emu_v, {pointer}); " + _write_each(op, parts, "b32", "emu_v")
    return f"{{ const uint32_t emu_v[{count}] = {{{op.reads(parts, 'b32')}}}; {call}({pointer}, emu_v); }} "


def _matrix_transpose(op: PtxOperation) -> str:
    op.need(2)
    op.accept("sync", "aligned", "m8n8", "trans", "b16")
    return op.write(op.operands[0], "b32", f"::emu::ptx::emu_movmatrix({op.read(op.operands[1], 'b32')})")


def _block_barrier(op: PtxOperation) -> str:
    words = [word for word in op.words if word not in ("cta", "aligned")]
    if words == ["warp", "sync"]:
        op.need(1)
        return f"__syncwarp({op.read(op.operands[0], 'b32')}); "
    if words in (["sync"], ["arrive"]):
        op.need(*((1, 2) if words == ["sync"] else (2,)))
        count = op.read(op.operands[1], "u32") if len(op.operands) > 1 else "0u"
        return f"::emu::ptx::emu_barrier({op.read(op.operands[0], 'u32')}, {count}, true, {_bool(words == ['arrive'])}); "
    members = {"popc": "count", "and": "all", "or": "any"}
    if len(words) != 3 or words[0] != "red" or words[1] not in members or words[2] not in ("u32", "pred"):
        raise op.refuse()
    op.need(3, 4)
    to, number, *middle, vote = op.operands
    count = op.read(middle[0], "u32") if middle else "0u"
    call = f"::emu::ptx::emu_barrier({op.read(number, 'u32')}, {count}, {op.read(vote, 'pred')}, false)"
    return op.write(to, words[2], f"{call}.{members[words[1]]}")


def _shuffle(op: PtxOperation) -> str:
    op.need(5)
    modes = ["up", "down", "bfly", "idx"]
    op.accept("sync", "b32", *modes)
    mode = modes.index(op.choice(modes))
    op.choice(("sync",))
    to, *inputs = op.operands
    call = f"::emu::ptx::emu_shuffle<{mode}>({op.reads(inputs, 'b32')}, emu_p)"
    return f"{{ bool emu_p; const uint32_t emu_v = {call}; " + _write_pair(op, to)


def _vote(op: PtxOperation) -> str:
    op.need(3)
    names = ("all", "any", "uni", "ballot")
    op.accept("sync", *names, "pred", "b32")
    name = op.choice(names)
    op.choice(("sync",))
    to, predicate, mask = op.operands
    call = f"__{name}_sync({op.read(mask, 'b32')}, {op.read(predicate, 'pred')})"
    return op.write(to, "b32", call) if name == "ballot" else op.write(to, "pred", f"{call} != 0")


def _match(op: PtxOperation) -> str:
    op.need(3)
    op.accept("any", "all", "sync", "b32", "b64")
    to, value, mask = op.operands
    arguments = f"{op.read(mask, 'b32')}, {op.read(value, op.last_type())}"
    if "any" in op.words:
        return op.write(to, "b32", f"__match_any_sync({arguments})")
    return f"{{ int emu_p; const uint32_t emu_v = __match_all_sync({arguments}, &emu_p); " + _write_pair(op, to)


def _reduce(op: PtxOperation) -> str:
    op.need(3)
    names = ("add", "min", "max", "and", "or", "xor")
    op.accept("sync", *names, "u32", "s32", "b32")
    name, type_ = op.choice(names), op.last_type()
    to, value, mask = op.operands
    return op.write(to, type_, f"__reduce_{name}_sync({op.read(mask, 'b32')}, {op.read(value, type_)})")


def _elect(op: PtxOperation) -> str:
    op.need(2)
    op.accept("sync")
    to, mask = op.operands
    if not isinstance(to, Pair):
        raise op.refuse()
    text = f"{{ const uint32_t emu_v = ::emu::ptx::emu_elect({op.read(mask, 'b32')}); const bool emu_p = emu_v == ::emu::lane(); "
    return text + _write_pair(op, to)


def _active_mask(op: PtxOperation) -> str:
    op.need(1)
    return op.write(op.operands[0], "b32", "__activemask()")


def _sleep(op: PtxOperation) -> str:
    op.need(1)
    return f"__nanosleep({op.read(op.operands[0], 'u32')}); "


def _end_thread(op: PtxOperation) -> str:
    op.need(0)
    return "::emu::ptx::emu_exit(); " if op.opcode == "exit" else "__trap(); "


def _matrix_product(op: PtxOperation) -> str:
    if "block_scale" in op.words or any(word.startswith("kind::") for word in op.words):
        raise op.unsupported(BLOCK_SCALED)
    op.need(4)
    form, *types = [word for word in op.words if word not in ("sync", "aligned", "row", "col", "satfinite", "popc", "xor", "and")] or [""]
    shape = form[1:].replace("n", " ").replace("k", " ").split()
    tags = {"f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s4", "u4", "b1", "e4m3", "e5m2", "s32"}
    if len(types) != 4 or len(shape) != 3 or not set(types) <= tags or not all(part.isdigit() for part in shape):
        raise op.refuse()
    if shape == ["8", "8", "4"] and types[1] == "f16":
        raise op.unsupported(VOLTA)
    into = op.operands[0]
    if "row.col" not in op.opcode or not isinstance(into, Vector):
        raise op.refuse()
    op.scope.headers.add("emu/tensor/mma.h")
    result, a, b, c = types
    binary = "b1_xor" if "xor" in op.words else "b1_and"
    kinds = (binary if a == "b1" else a, binary if b == "b1" else b, c, result)
    unit, cpp = ("b64", "uint64_t") if result == "f64" else ("b32", "uint32_t")
    declared = ""
    for name, operand in zip("abc", op.operands[1:], strict=True):
        values = _parts_of(operand, op)
        declared += f"const {cpp} emu_{name}[{len(values)}] = {{{op.reads(values, unit)}}}; "
    template = ", ".join((*shape, *(f"::emu::ptx::{kind}" for kind in kinds), _bool("satfinite" in op.words)))
    text = f"{{ {cpp} emu_d[{len(into.parts)}]; {declared}::emu::ptx::mma<{template}>(emu_d, emu_a, emu_b, emu_c); "
    return text + _write_each(op, into.parts, unit, "emu_d")


EMITTERS = {
    "mov": _move,
    "setp": _compare,
    **dict.fromkeys(("dp4a", "dp2a"), _dot_product),
    "prmt": _permute,
    "cvt": _convert,
    "bra": _branch,
    **dict.fromkeys(("ld", "ldu"), _load),
    "st": _store,
    **dict.fromkeys(("atom", "red"), _atomic),
    "cvta": _convert_address,
    "isspacep": _is_in_space,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "pmevent"), nothing),
    "createpolicy": policy,
    **dict.fromkeys(("membar", "fence"), _fence),
    "cp": _asynchronous_copy,
    **dict.fromkeys(("ldmatrix", "stmatrix"), _matrix_memory),
    "movmatrix": _matrix_transpose,
    **dict.fromkeys(("bar", "barrier"), _block_barrier),
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
