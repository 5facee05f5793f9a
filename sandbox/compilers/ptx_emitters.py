"""PTX instructions on registers whose operands or modifiers follow rules of their own, as C++ statements."""

from sandbox.compilers.ptx_instructions import ELSEWHERE, FLAGS, IGNORED, NARROW, TYPES
from sandbox.compilers.ptx_scope import PtxScope, PtxUnsupported
from sandbox.compilers.ptx_tree import Address, Instruction, Operand, Pair, Register, Sink, Vector

COMPARISONS = {
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")},
    **{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"},
}
ROUNDING = {"rni": 0, "rzi": FLAGS["rz"], "rmi": FLAGS["rm"], "rpi": FLAGS["rp"]}
INTEGER_ROUNDING = 512  # as in emu/ptx/flags.h
UNITS = {8: "b8", 16: "b16", 32: "b32", 64: "b64"}
SHARED = ("shared", "shared::cta", "shared::cluster")


def modifiers(op: Instruction) -> list[str]:
    """The parts of an opcode behind its name."""
    return op.opcode.split(".")[1:]


def refuse(op: Instruction, modifier: str = "") -> PtxUnsupported:
    """A form that is not there."""
    what = f"'.{modifier}' of the PTX instruction '{op.opcode}'" if modifier else f"this form of the PTX instruction '{op.opcode}'"
    return PtxUnsupported(op.position, f"the emulated device does not know {what}; {ELSEWHERE}")


def last_type(op: Instruction, known: tuple[str, ...] = tuple(TYPES)) -> str:
    """The type at the end of an opcode."""
    found = [part for part in modifiers(op) if part in known]
    if not found:
        raise refuse(op)
    return found[-1]


def accept(op: Instruction, allowed: set[str]) -> None:
    """Refuse an opcode with any other modifier than these."""
    for part in modifiers(op):
        if part not in allowed:
            raise refuse(op, part)


def need(op: Instruction, *counts: int) -> None:
    """Refuse any other number of operands."""
    if len(op.operands) not in counts:
        raise PtxUnsupported(
            op.position, f"'{op.opcode}' has {len(op.operands)} operands, not {' or '.join(str(count) for count in counts)}"
        )


def parts_of(operand: Operand, op: Instruction) -> tuple[Operand, ...]:
    """The elements of a vector; a single operand is one of one element."""
    if isinstance(operand, Address):
        raise refuse(op)
    return operand.parts if isinstance(operand, Vector) else (operand,)


def move(scope: PtxScope, op: Instruction) -> str:
    """`mov`, which also packs and unpacks vectors."""
    need(op, 2)
    type_ = last_type(op)
    accept(op, {type_})
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
        terms = [f"static_cast<uint64_t>({scope.read(one, part, op)}) << {bits * at}" for at, one in enumerate(source.parts)]
        return scope.write(to, f"u{TYPES[type_][1]}", f"static_cast<uint{TYPES[type_][1]}_t>({' | '.join(terms)})", op)
    assert isinstance(to, Vector)
    whole = f"static_cast<uint64_t>({scope.read(source, 'b' + str(TYPES[type_][1]), op)})"
    text = f"{{ const uint64_t emu_w = {whole}; "
    for at, one in enumerate(to.parts):
        if not isinstance(one, Sink):
            text += scope.write(one, part, f"static_cast<uint{bits}_t>(emu_w >> {bits * at})", op)
    return text + "} "


def compare(scope: PtxScope, op: Instruction) -> str:
    """`setp` and `set`."""
    words = modifiers(op)
    types = [word for word in words if word in TYPES]
    name = next((COMPARISONS[word] for word in words if word in COMPARISONS), None)
    combine = next((word for word in words if word in ("and", "or", "xor")), None)
    sets = op.opcode.startswith("set.")
    if name is None or len(types) != (2 if sets else 1) or types[-1] in ("f16x2", "bf16x2", "pred"):
        raise refuse(op)
    accept(op, {*types, *COMPARISONS, "ftz", "and", "or", "xor"})
    need(op, 4 if combine else 3)
    to, a, b, *third = op.operands
    cpp = TYPES[types[-1]][0]
    flags = FLAGS["ftz"] if "ftz" in words else 0
    test = f"::emu::ptx::emu_{name}<{cpp}, {flags}>({scope.read(a, types[-1], op)}, {scope.read(b, types[-1], op)})"
    sign = {"and": "&&", "or": "||", "xor": "!=", None: ""}[combine]
    other = f" {sign} {scope.read(third[0], 'pred', op)}" if third else ""
    if sets:
        if types[0] not in ("u32", "s32", "f32"):
            raise refuse(op)
        yes, no = ("1.0f", "0.0f") if types[0] == "f32" else ("0xffffffffu", "0u")
        return scope.write(to, types[0], f"({test}{other}) ? {yes} : {no}", op)
    text = f"{{ const bool emu_t = {test}; "
    if not isinstance(to, Pair):
        return text + scope.write(to, "pred", f"emu_t{other}", op) + "} "
    # Both results are worked out before either is written: the third operand may be one of them.
    text += f"const bool emu_u = !emu_t{other}; " + scope.write(to.first, "pred", f"emu_t{other}", op)
    return text + scope.write(to.second, "pred", "emu_u", op) + "} "


def choose_by_sign(scope: PtxScope, op: Instruction) -> str:
    """`slct`."""
    need(op, 4)
    types = [word for word in modifiers(op) if word in TYPES]
    if len(types) != 2 or types[1] not in ("s32", "f32"):
        raise refuse(op)
    accept(op, {*types, "ftz"})
    to, a, b, c = op.operands
    return scope.write(
        to, types[0], f"{scope.read(c, types[1], op)} >= 0 ? {scope.read(a, types[0], op)} : {scope.read(b, types[0], op)}", op
    )


def dot_product(scope: PtxScope, op: Instruction) -> str:
    """`dp4a` and `dp2a`."""
    need(op, 4)
    name, *words = op.opcode.split(".")
    types = [word for word in words if word in ("u32", "s32")]
    if len(types) != 2:
        raise refuse(op)
    accept(op, {"u32", "s32", *(("lo", "hi") if name == "dp2a" else ())})
    signs = ", ".join("true" if type_ == "s32" else "false" for type_ in types)
    half = f", {'true' if 'hi' in words else 'false'}" if name == "dp2a" else ""
    to, *inputs = op.operands
    read = ", ".join(scope.read(one, "b32", op) for one in inputs)
    return scope.write(to, "b32", f"::emu::ptx::emu_{name}<{signs}{half}>({read})", op)


def permute(scope: PtxScope, op: Instruction) -> str:
    """`prmt`."""
    need(op, 4)
    modes = ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]
    accept(op, {"b32", *modes})
    mode = next((modes.index(word) for word in modifiers(op) if word in modes), 0)
    to, *inputs = op.operands
    return scope.write(to, "b32", f"::emu::ptx::emu_prmt<{mode}>({', '.join(scope.read(one, 'b32', op) for one in inputs)})", op)


def test_property(scope: PtxScope, op: Instruction) -> str:
    """`testp`."""
    need(op, 2)
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = next((word for word in modifiers(op) if word in kinds), None)
    type_ = last_type(op, ("f32", "f64"))
    accept(op, {*kinds, "f32", "f64"})
    if kind is None:
        raise refuse(op)
    return scope.write(op.operands[0], "pred", f"::emu::ptx::emu_is_{kind}({scope.read(op.operands[1], type_, op)})", op)


def convert(scope: PtxScope, op: Instruction) -> str:
    """`cvt`, of one or of two values."""
    words = modifiers(op)
    types = [word for word in words if word in TYPES or word in NARROW]
    rounding = [word for word in words if word in ROUNDING]
    if words[:1] == ["pack"]:
        return _convert_packed(scope, op)
    accept(op, {*types, *ROUNDING, *FLAGS, *IGNORED} - {"approx", "full", "NaN"})
    if len(types) != 2:
        raise refuse(op)
    flags = sum(FLAGS[word] for word in words if word in FLAGS) + sum(ROUNDING[word] + INTEGER_ROUNDING for word in rounding)
    to, source = types
    if to in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2") and source == "f32":
        need(op, 3)
        a, b = (scope.read(one, "f32", op) for one in op.operands[1:])
        kind = TYPES[to][0] if to in TYPES else f"::emu::ptx::{to[:4].capitalize()}"
        result = "b16" if to in NARROW else to
        return scope.write(op.operands[0], result, f"::emu::ptx::emu_convert_two<{kind}, {flags}>({a}, {b})", op)
    need(op, 2)
    if to in ("e4m3x2", "e5m2x2") and source == "f16x2":
        value = f"::emu::ptx::emu_pack_fp8<::emu::ptx::{to[:4].capitalize()}, {flags}>({scope.read(op.operands[1], source, op)})"
        return scope.write(op.operands[0], "b16", value, op)
    if source in ("e4m3x2", "e5m2x2") and to == "f16x2":
        value = f"::emu::ptx::emu_unpack_fp8<::emu::ptx::{source[:4].capitalize()}, {flags}>({scope.read(op.operands[1], 'b16', op)})"
        return scope.write(op.operands[0], to, value, op)
    if to == "tf32" and source == "f32":
        return scope.write(op.operands[0], "b32", f"::emu::ptx::emu_to_tf32<{flags}>({scope.read(op.operands[1], 'f32', op)})", op)
    if {to, source} & {*NARROW, "f16x2", "bf16x2", "pred"} or any(one[0] == "b" and one != "bf16" for one in types) or FLAGS["rna"] & flags:
        raise refuse(op)
    value = f"::emu::ptx::emu_convert<{TYPES[to][0]}, {TYPES[source][0]}, {flags}>({scope.read(op.operands[1], source, op)})"
    return scope.write(op.operands[0], to, value, op)


def _convert_packed(scope: PtxScope, op: Instruction) -> str:
    """`cvt.pack.sat`: two saturated integers, and the rest of a third operand behind them."""
    types = [word for word in modifiers(op) if word in TYPES]
    accept(op, {"pack", "sat", *types})
    if len(types) not in (2, 3) or types[0] not in ("s8", "u8", "s16", "u16") or types[1] != "s32" or "sat" not in modifiers(op):
        raise refuse(op)
    need(op, len(types) + 1)
    to, a, b, *rest = op.operands
    third = scope.read(rest[0], "b32", op) if rest else "0u"
    value = f"::emu::ptx::emu_pack<{TYPES[types[0]][0]}>({scope.read(a, 's32', op)}, {scope.read(b, 's32', op)}, {third})"
    return scope.write(to, "b32", value, op)


def branch(scope: PtxScope, op: Instruction) -> str:
    """`bra`."""
    accept(op, {"uni"})
    need(op, 1)
    (target,) = op.operands
    if not isinstance(target, Register):
        raise refuse(op)
    return f"goto emu_l_{label(target.name)}; "


def label(name: str) -> str:
    """A label's name as C++ has it."""
    return name.replace("$", "_")


EMITTERS = {
    "mov": move,
    "setp": compare,
    "set": compare,
    "slct": choose_by_sign,
    "dp4a": dot_product,
    "dp2a": dot_product,
    "prmt": permute,
    "testp": test_property,
    "cvt": convert,
    "bra": branch,
}
