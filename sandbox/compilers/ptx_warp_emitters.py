"""PTX instructions that a warp or a block does together, as C++ statements."""

from sandbox.compilers.ptx_emitters import SHARED, accept, last_type, modifiers, need, parts_of, refuse
from sandbox.compilers.ptx_instructions import ELSEWHERE
from sandbox.compilers.ptx_memory_emitters import address
from sandbox.compilers.ptx_scope import PtxScope, PtxUnsupported
from sandbox.compilers.ptx_tree import Instruction, Operand, Pair, Vector

BLOCK_SCALED = f"the emulated device has no tensor cores for block-scaled numbers (mma with .block_scale or .kind); {ELSEWHERE}"
VOLTA = f"the emulated device has no m8n8k4 on fp16, which only Volta runs on its tensor cores; use m16n8k8 or m16n8k16, or {ELSEWHERE}"


def matrix_memory(scope: PtxScope, op: Instruction) -> str:
    """`ldmatrix` and `stmatrix`."""
    need(op, 2)
    accept(op, {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", *SHARED, "b16"})
    words = modifiers(op)
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    loads = op.opcode.startswith("ldmatrix")
    registers, where = op.operands if loads else reversed(op.operands)
    parts = parts_of(registers, op)
    if not {"m8n8", "b16"} <= set(words) or len(parts) != count:
        raise refuse(op)
    transposed = "true" if "trans" in words else "false"
    pointer = address(scope, where, op, shared=True)
    if loads:
        text = f"{{ uint32_t emu_v[{count}]; ::emu::ptx::emu_ldmatrix<{count}, {transposed}>(emu_v, {pointer}); "
        return text + "".join(scope.write(one, "b32", f"emu_v[{at}]", op) for at, one in enumerate(parts)) + "} "
    values = ", ".join(scope.read(one, "b32", op) for one in parts)
    return f"{{ const uint32_t emu_v[{count}] = {{{values}}}; ::emu::ptx::emu_stmatrix<{count}, {transposed}>({pointer}, emu_v); }} "


def matrix_transpose(scope: PtxScope, op: Instruction) -> str:
    """`movmatrix`."""
    need(op, 2)
    accept(op, {"sync", "aligned", "m8n8", "trans", "b16"})
    return scope.write(op.operands[0], "b32", f"::emu::ptx::emu_movmatrix({scope.read(op.operands[1], 'b32', op)})", op)


def block_barrier(scope: PtxScope, op: Instruction) -> str:
    """`bar` and `barrier`, with their reductions."""
    words = [word for word in modifiers(op) if word not in ("cta", "aligned")]
    if words == ["warp", "sync"]:
        need(op, 1)
        return f"__syncwarp({scope.read(op.operands[0], 'b32', op)}); "
    given = list(op.operands)
    if words == ["sync"] or words == ["arrive"]:
        need(op, *((1, 2) if words == ["sync"] else (2,)))
        count = scope.read(given[1], "u32", op) if len(given) > 1 else "0u"
        arrives = "true" if words == ["arrive"] else "false"
        return f"::emu::ptx::emu_barrier({scope.read(given[0], 'u32', op)}, {count}, true, {arrives}); "
    if len(words) != 3 or words[0] != "red" or words[1] not in ("popc", "and", "or") or words[2] not in ("u32", "pred"):
        raise refuse(op)
    need(op, 3, 4)
    to, number, *middle, vote = given
    count = scope.read(middle[0], "u32", op) if middle else "0u"
    call = f"::emu::ptx::emu_barrier({scope.read(number, 'u32', op)}, {count}, {scope.read(vote, 'pred', op)}, false)"
    member = {"popc": "count", "and": "all", "or": "any"}[words[1]]
    return scope.write(to, words[2], f"{call}.{member}", op)


def shuffle(scope: PtxScope, op: Instruction) -> str:
    """`shfl.sync`."""
    need(op, 5)
    modes = ["up", "down", "bfly", "idx"]
    words = modifiers(op)
    accept(op, {"sync", "b32", *modes})
    mode = next((word for word in words if word in modes), None)
    if mode is None or "sync" not in words:
        raise refuse(op)
    to, value, lane, bounds, mask = op.operands
    result = to.first if isinstance(to, Pair) else to
    given = ", ".join(scope.read(one, "b32", op) for one in (value, lane, bounds, mask))
    text = f"{{ bool emu_p; const uint32_t emu_v = ::emu::ptx::emu_shuffle<{modes.index(mode)}>({given}, emu_p); "
    text += scope.write(result, "b32", "emu_v", op)
    return text + (scope.write(to.second, "pred", "emu_p", op) if isinstance(to, Pair) else "") + "} "


def vote(scope: PtxScope, op: Instruction) -> str:
    """`vote.sync`."""
    need(op, 3)
    functions = {"all": "__all_sync", "any": "__any_sync", "uni": "__uni_sync", "ballot": "__ballot_sync"}
    accept(op, {"sync", *functions, "pred", "b32"})
    words = modifiers(op)
    name = next((word for word in words if word in functions), None)
    if name is None or "sync" not in words:
        raise refuse(op)
    to, predicate, mask = op.operands
    call = f"{functions[name]}({scope.read(mask, 'b32', op)}, {scope.read(predicate, 'pred', op)})"
    return scope.write(to, "b32", call, op) if name == "ballot" else scope.write(to, "pred", f"{call} != 0", op)


def match(scope: PtxScope, op: Instruction) -> str:
    """`match.any.sync` and `match.all.sync`."""
    need(op, 3)
    accept(op, {"any", "all", "sync", "b32", "b64"})
    words = modifiers(op)
    to, value, mask = op.operands
    given = f"{scope.read(mask, 'b32', op)}, {scope.read(value, last_type(op), op)}"
    if "any" in words:
        return scope.write(to, "b32", f"__match_any_sync({given})", op)
    result = to.first if isinstance(to, Pair) else to
    text = f"{{ int emu_p; const uint32_t emu_v = __match_all_sync({given}, &emu_p); " + scope.write(result, "b32", "emu_v", op)
    return text + (scope.write(to.second, "pred", "emu_p != 0", op) if isinstance(to, Pair) else "") + "} "


def reduce(scope: PtxScope, op: Instruction) -> str:
    """`redux.sync`."""
    need(op, 3)
    names = {"add", "min", "max", "and", "or", "xor"}
    accept(op, {"sync", *names, "u32", "s32", "b32"})
    name = next((word for word in modifiers(op) if word in names), None)
    if name is None:
        raise refuse(op)
    type_ = last_type(op)
    to, value, mask = op.operands
    return scope.write(to, type_, f"__reduce_{name}_sync({scope.read(mask, 'b32', op)}, {scope.read(value, type_, op)})", op)


def elect(scope: PtxScope, op: Instruction) -> str:
    """`elect.sync`."""
    need(op, 2)
    accept(op, {"sync"})
    to, mask = op.operands
    if not isinstance(to, Pair):
        raise refuse(op)
    text = f"{{ const uint32_t emu_v = ::emu::ptx::emu_elect({scope.read(mask, 'b32', op)}); " + scope.write(to.first, "b32", "emu_v", op)
    return text + scope.write(to.second, "pred", "emu_v == ::emu::lane()", op) + "} "


def active_mask(scope: PtxScope, op: Instruction) -> str:
    """`activemask`."""
    need(op, 1)
    return scope.write(op.operands[0], "b32", "__activemask()", op)


def sleep(scope: PtxScope, op: Instruction) -> str:
    """`nanosleep`."""
    need(op, 1)
    return f"__nanosleep({scope.read(op.operands[0], 'u32', op)}); "


def end_thread(scope: PtxScope, op: Instruction) -> str:
    """`exit`, `trap` and `brkpt`."""
    need(op, 0)
    return "::emu::ptx::emu_exit(); " if scope and op.opcode == "exit" else "__trap(); "


def _array(values: Operand, type_: str, scope: PtxScope, op: Instruction) -> tuple[str, int]:
    parts = parts_of(values, op)
    return ", ".join(scope.read(one, type_, op) for one in parts), len(parts)


def matrix_product(scope: PtxScope, op: Instruction) -> str:
    """`mma.sync`; the tile arithmetic is that of emu/tensor/mma.h."""
    if "block_scale" in modifiers(op) or any(word.startswith("kind::") for word in modifiers(op)):
        raise PtxUnsupported(op.position, BLOCK_SCALED)
    need(op, 4)
    words = [word for word in modifiers(op) if word not in ("sync", "aligned", "row", "col", "satfinite", "popc", "xor", "and")]
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
    binary = "b1_xor" if "xor" in modifiers(op) else "b1_and"
    a, b = (binary if one == "b1" else one for one in (a, b))
    scope.headers.add("emu/tensor/mma.h")
    unit, cpp = ("b64", "uint64_t") if result == "f64" else ("b32", "uint32_t")
    arrays = [_array(one, unit, scope, op) for one in op.operands[1:]]
    into = op.operands[0]
    if not isinstance(into, Vector):
        raise refuse(op)
    declared = " ".join(f"const {cpp} emu_{name}[{count}] = {{{values}}};" for name, (values, count) in zip("abc", arrays, strict=True))
    template = ", ".join(
        (*shape, *(f"::emu::ptx::{one}" for one in (a, b, c, result)), "true" if "satfinite" in modifiers(op) else "false")
    )
    text = f"{{ {cpp} emu_d[{len(into.parts)}]; {declared} ::emu::ptx::mma<{template}>(emu_d, emu_a, emu_b, emu_c); "
    return text + "".join(scope.write(one, unit, f"emu_d[{at}]", op) for at, one in enumerate(into.parts)) + "} "


EMITTERS = {
    "ldmatrix": matrix_memory,
    "stmatrix": matrix_memory,
    "movmatrix": matrix_transpose,
    "bar": block_barrier,
    "barrier": block_barrier,
    "shfl": shuffle,
    "vote": vote,
    "match": match,
    "redux": reduce,
    "elect": elect,
    "activemask": active_mask,
    "nanosleep": sleep,
    **dict.fromkeys(("exit", "trap", "brkpt"), end_thread),
    "mma": matrix_product,
}
