"""The PTX instructions that the emulated device has, why others are refused, and how C++ reads and writes what a template names.

Names and forms are those of the PTX ISA 8.7, chapter 9.  What needs code of its own is in ptx_emitters.py.
"""

from dataclasses import dataclass, field

from grader_extensions.emulated_cuda.inline_ptx import AsmParameter, Immediate, Instruction, Negated, Operand, PtxError, Register, Sink

ELSEWHERE = "use a CUDA device for this kernel"

# A PTX type: the C++ type that stands for it, and its bits.
TYPES = {
    **{f"{kind}{bits}": (f"{'int' if kind == 's' else 'uint'}{bits}_t", bits) for kind in "sub" for bits in (8, 16, 32, 64)},
    "f32": ("float", 32),
    "f64": ("double", 64),
    "f16": ("::emu::ptx::Half", 16),
    "bf16": ("::emu::ptx::Bfloat", 16),
    "f16x2": ("::emu::ptx::Half2", 32),
    "bf16x2": ("::emu::ptx::Bfloat2", 32),
    "pred": ("bool", 1),
}
# Types only of conversions.
NARROW = {"tf32": ("uint32_t", 32), "e4m3x2": ("uint16_t", 16), "e5m2x2": ("uint16_t", 16)}
ALL_TYPES = TYPES | NARROW
# The twice as wide type, of `mul.wide`.
WIDE = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}

# Modifiers that change the result, as emu/ptx/values.h numbers them.
FLAGS = {"ftz": 1, "sat": 2, "relu": 4, "NaN": 8, "rz": 16, "rm": 32, "rp": 64, "satfinite": 128, "rna": 256}
# Modifiers that change nothing here: rounding to nearest, and functions that are as precise as approximate ones must be.
IGNORED = {"rn", "approx", "full", "noftz"}

INTEGERS = "s16 u16 s32 u32 s64 u64"
BITS = "b16 b32 b64"
FLOATS = "f32 f64 f16 bf16 f16x2 bf16x2"
# Modifiers that stand for a part of a rule's name, wherever they are in the opcode.
NAME_PARTS = {"lo", "hi", "wide", "cc", "l", "r", "wrap", "clamp", "shiftamt"}
_TMA = f"the emulated device has no tensor memory accelerator (TMA) and no bulk copies; {ELSEWHERE}"
CLUSTER = f"the emulated device has no cluster instructions in inline PTX; use cooperative_groups::this_cluster(), or {ELSEWHERE}"
_BARRIER = (
    f"the emulated device does not run mbarrier instructions in inline PTX; use __syncthreads, bar.sync or cuda::barrier, or {ELSEWHERE}"
)
_TEXTURE = f"the emulated device reads no textures from inline PTX; call tex1Dfetch, or {ELSEWHERE}"
_SURFACE = f"the emulated device has no surfaces; {ELSEWHERE}"
# By the beginning of the opcode; the first that fits.
REFUSED = {
    "wgmma": f"the emulated device has no warpgroup instructions (wgmma); use mma.sync, or {ELSEWHERE}",
    "tcgen05": f"the emulated device has no tensor memory (tcgen05); use mma.sync, or {ELSEWHERE}",
    "wmma": f"the emulated device does not run wmma in inline PTX; use nvcuda::wmma or mma.sync, or {ELSEWHERE}",
    "mma.sp": f"the emulated device has no sparse tensor cores (mma.sp); {ELSEWHERE}",
    "cp.async.bulk": _TMA,
    "cp.reduce.async.bulk": _TMA,
    "cp.async.mbarrier": _BARRIER,
    "tensormap": _TMA,
    "fence.proxy.tensormap": _TMA,
    "multimem": f"the emulated device has no memory of several GPUs (multimem); {ELSEWHERE}",
    "setmaxnreg": f"the emulated device cannot change the number of registers of a running warp (setmaxnreg); {ELSEWHERE}",
    "mbarrier": _BARRIER,
    "mapa": CLUSTER,
    "getctarank": CLUSTER,
    "barrier.cluster": CLUSTER,
    "clusterlaunchcontrol": CLUSTER,
    "st.async": CLUSTER,
    "red.async": CLUSTER,
    "st.bulk": _TMA,
    **dict.fromkeys(("tex", "tld4", "txq"), _TEXTURE),
    **dict.fromkeys(("suld", "sust", "sured", "suq"), _SURFACE),
    "call": f"the emulated device calls no functions from inline PTX; {ELSEWHERE}",
    "ret": f"the emulated device cannot leave a function from inline PTX (ret); return in CUDA C++, or {ELSEWHERE}",
    "brx": f"the emulated device has no branch tables in inline PTX; {ELSEWHERE}",
}
# Special registers: the C++ function that reads each, and its bits.
SPECIAL = {
    **{f"{name}.{axis}": (f"{name}_{axis}", 32) for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    "clock": ("clock_cycles_low", 32),
    "clock_hi": ("clock_cycles_high", 32),
    "clock64": ("clock_cycles", 64),
    "globaltimer": ("global_timer", 64),
    "globaltimer_lo": ("global_timer", 64),
    **{name: (name, 32) for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid")},
    **{f"lanemask_{part}": (f"lanemask_{part}", 32) for part in ("eq", "lt", "le", "gt", "ge")},
    "dynamic_smem_size": ("dynamic_shared_bytes", 32),
    "WARP_SZ": ("warp_lanes", 32),
}
REGISTER_TYPES = {**{name: bits for name, (_, bits) in TYPES.items()}, "b128": 128}


@dataclass(frozen=True, slots=True)
class PtxRule:
    """A simple instruction: `form` is its result and its operands, T being its type, W the wide one, others by their own names."""

    form: str
    types: frozenset[str]
    modifiers: frozenset[str] = frozenset()
    function: str = ""


def _rules(text: str) -> dict[str, PtxRule]:
    """Each line: name, form, types, modifiers, and the C++ function if it has another name."""
    rules = {}
    for line in text.strip().splitlines():
        name, form, types, modifiers, *function = (field.strip() for field in line.split("|"))
        expanded = types.replace("I", INTEGERS).replace("B", BITS).replace("F", FLOATS)
        called = function[0] if function else name.replace(".", "_")
        rules[name] = PtxRule(form, frozenset(expanded.split()), frozenset(modifiers.split()), called)
    return rules


RULES = _rules("""
add         | T=T,T         | I F          | rn rz rm rp ftz sat
sub         | T=T,T         | I F          | rn rz rm rp ftz sat
mul         | T=T,T         | F            | rn rz rm rp ftz sat
mul.lo      | T=T,T         | I            |                      | mul
mul.hi      | T=T,T         | I            |
mul.wide    | W=T,T         | s16 u16 s32 u32 |
mad         | T=T,T,T       | f32 f64      | rn rz rm rp ftz sat  | fma
mad.lo      | T=T,T,T       | I            |
mad.hi      | T=T,T,T       | I            |
mad.wide    | W=T,T,W       | s16 u16 s32 u32 |
fma         | T=T,T,T       | F            | rn rz rm rp ftz sat relu
mul24.lo    | T=T,T         | s32 u32      |
mad24.lo    | T=T,T,T       | s32 u32      |
add.cc      | T=T,T         | s32 u32 s64 u64 |
addc        | T=T,T         | s32 u32 s64 u64 |
addc.cc     | T=T,T         | s32 u32 s64 u64 |                   | addc
sub.cc      | T=T,T         | s32 u32 s64 u64 |
subc        | T=T,T         | s32 u32 s64 u64 |
subc.cc     | T=T,T         | s32 u32 s64 u64 |                   | subc
mad.lo.cc   | T=T,T,T       | s32 u32 s64 u64 |
madc.lo     | T=T,T,T       | s32 u32 s64 u64 |
madc.lo.cc  | T=T,T,T       | s32 u32 s64 u64 |                   | madc_lo
mad.hi.cc   | T=T,T,T       | s32 u32 s64 u64 |
madc.hi     | T=T,T,T       | s32 u32 s64 u64 |
madc.hi.cc  | T=T,T,T       | s32 u32 s64 u64 |                   | madc_hi
div         | T=T,T         | I f32 f64    | rn approx full ftz   | divide
rem         | T=T,T         | I            |
abs         | T=T           | s16 s32 s64 F | ftz                 | absolute
neg         | T=T           | s16 s32 s64 F | ftz
min         | T=T,T         | I F          | ftz NaN              | minimum
max         | T=T,T         | I F          | ftz NaN              | maximum
copysign    | T=T,T         | f32 f64      |
sad         | T=T,T,T       | I            |
and         | T=T,T         | B pred       |                      | bit_and
or          | T=T,T         | B pred       |                      | bit_or
xor         | T=T,T         | B pred       |                      | bit_xor
not         | T=T           | B pred       |                      | bit_not
cnot        | T=T           | B            |
shl         | T=T,u32       | B            |
shr         | T=T,u32       | B I          |
shf.l.wrap  | T=T,T,u32     | b32          |
shf.r.wrap  | T=T,T,u32     | b32          |
shf.l.clamp | T=T,T,u32     | b32          |
shf.r.clamp | T=T,T,u32     | b32          |
lop3        | T=T,T,T,u32   | b32          |
bfe         | T=T,u32,u32   | s32 u32 s64 u64 |
bfi         | T=T,T,u32,u32 | b32 b64      |
bfind       | u32=T         | s32 u32 s64 u64 |
bfind.shiftamt | u32=T      | s32 u32 s64 u64 |
popc        | u32=T         | b32 b64      |
clz         | u32=T         | b32 b64      |
brev        | T=T           | b32 b64      |
selp        | T=T,T,pred    | B I f32 f64  |
rcp         | T=T           | f32 f64      | rn approx ftz
sqrt        | T=T           | f32 f64      | rn approx ftz        | square_root
rsqrt       | T=T           | f32 f64      | approx ftz
sin         | T=T           | f32          | approx ftz           | sine
cos         | T=T           | f32          | approx ftz           | cosine
lg2         | T=T           | f32          | approx ftz
ex2         | T=T           | f32 f16 f16x2 bf16 bf16x2 | approx ftz
tanh        | T=T           | f32 f16 f16x2 bf16 bf16x2 | approx   | hyperbolic_tangent
""")


class PtxUnsupported(PtxError):
    """The emulated device does not run this."""


@dataclass(frozen=True, slots=True)
class Local:
    """A C++ variable that stands for a register or an operand of the statement."""

    name: str
    bits: int
    written: bool = True


@dataclass(slots=True)
class PtxScope:
    """Meaning of the names: the statement's operands, then registers by the block that declares them, the innermost last."""

    parameters: list[Local]
    registers: list[dict[str, Local]] = field(default_factory=lambda: [{}])
    count: int = 0  # of registers, for names that differ
    headers: set[str] = field(default_factory=set)  # to be included before the statement

    def declare(self, type_: str, names: tuple[str, ...], position: int) -> str:
        """C++ declarations; no initialiser, as a jump may not pass one."""
        bits = REGISTER_TYPES.get(type_)
        if bits is None or bits > 64:
            raise PtxUnsupported(position, f"the emulated device has no registers of type '.{type_}'; {ELSEWHERE}")
        text = ""
        for name in names:
            self.count += 1
            local = Local(f"emu_r{self.count}", bits)
            self.registers[-1][name] = local
            text += f"{cpp_register(bits)} {local.name}; ::emu::ptx::emu_undefined({local.name}); "
        return text

    def local(self, operand: Operand, op: Instruction) -> Local:
        """The variable of an operand of the statement, or of a register."""
        if isinstance(operand, AsmParameter):
            if operand.index >= len(self.parameters):
                raise PtxUnsupported(op.position, f"the asm statement has no operand %{operand.index}")
            return self.parameters[operand.index]
        if isinstance(operand, Register):
            for names in reversed(self.registers):
                if operand.name in names:
                    return names[operand.name]
            if operand.name.startswith(("cluster_", "nclusterid", "clusterid", "is_explicit_cluster")):
                raise PtxUnsupported(op.position, CLUSTER)
            raise PtxUnsupported(
                op.position,
                f"the register '{operand.name}' is not declared in this asm statement, nor a special register that is known; {ELSEWHERE}",
            )
        raise PtxUnsupported(op.position, f"the emulated device cannot read an operand of '{op.opcode}'; {ELSEWHERE}")

    def is_predicate(self, operand: Operand) -> bool:
        """Return whether an operand is a predicate register."""
        inner = operand.operand if isinstance(operand, Negated) else operand
        locals_ = [names[inner.name] for names in self.registers if inner.name in names] if isinstance(inner, Register) else []
        return bool(locals_) and locals_[-1].bits == 1

    def read(self, operand: Operand, type_: str, op: Instruction) -> str:
        """The C++ expression of an operand, read as a type."""
        cpp, bits = ALL_TYPES[type_]
        if isinstance(operand, Negated):
            return f"!{self.read(operand.operand, 'pred', op)}"
        if isinstance(operand, Immediate):
            if type_ == "pred":
                return "true" if operand.text not in ("0", "-0") else "false"
            if operand.float_bits and operand.text.startswith("0x"):
                return f"::emu::ptx::emu_read<{cpp}>({operand.text})"
            if operand.float_bits or type_ in ("f32", "f64"):
                return f"static_cast<{cpp}>({operand.text})"
            suffix = "ll" if operand.text.startswith("-") else "ull"
            return f"::emu::ptx::emu_read<{cpp}>(static_cast<uint64_t>({operand.text}{suffix}))"
        if isinstance(operand, Register) and operand.name in SPECIAL and not any(operand.name in names for names in self.registers):
            function, _ = SPECIAL[operand.name]
            return f"static_cast<{cpp}>(::emu::ptx::emu_{function}())"
        local = self.local(operand, op)
        if (bits == 1) != (local.bits == 1) or local.bits < bits:
            raise PtxUnsupported(op.position, _mismatch(op, local, type_))
        return local.name if bits == 1 else f"::emu::ptx::emu_read<{cpp}>({local.name})"

    def write(self, operand: Operand, type_: str, value: str, op: Instruction) -> str:
        """The C++ statement that gives an operand a value of a type."""
        if isinstance(operand, Sink):
            return f"(void)({value}); "
        local = self.local(operand, op)
        if not local.written:
            raise PtxUnsupported(op.position, f"'{op.opcode}' writes an operand that the asm statement lists as an input")
        bits = ALL_TYPES[type_][1]
        if (bits == 1) != (local.bits == 1) or local.bits < bits:
            raise PtxUnsupported(op.position, _mismatch(op, local, type_))
        return f"{local.name} = {value}; " if bits == 1 else f"{local.name} = ::emu::ptx::emu_write<{cpp_register(local.bits)}>({value}); "


def cpp_register(bits: int) -> str:
    """The C++ type of a register of that many bits."""
    return "bool" if bits == 1 else f"uint{bits}_t"


def _mismatch(op: Instruction, local: Local, type_: str) -> str:
    has = "is a predicate" if local.bits == 1 else f"has {local.bits} bits"
    return f"an operand of '{op.opcode}' {has}, which does not fit the type '.{type_}'"
