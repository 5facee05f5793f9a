"""The PTX instructions that the emulated device has, why others are refused, and how C++ reads and writes what a template names.

Names and forms are those of the PTX ISA 8.7, chapter 9.  What needs code of its own is in ptx_emitters.py.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from grader_extensions.emulated_cuda.inline_ptx import (
    AsmParameter,
    Declaration,
    Immediate,
    Negated,
    Operand,
    PtxUnsupported,
    Register,
    Sink,
)

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

# Modifiers that change the result, as emu/ptx/ptx.h numbers them.
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
# By the beginning of the opcode.
REFUSED = {
    "wgmma": f"the emulated device has no warpgroup instructions (wgmma); use mma.sync, or {ELSEWHERE}",
    "tcgen05": f"the emulated device has no tensor memory (tcgen05); use mma.sync, or {ELSEWHERE}",
    "wmma": f"the emulated device does not run wmma in inline PTX; use nvcuda::wmma or mma.sync, or {ELSEWHERE}",
    "mma.sp": f"the emulated device has no sparse tensor cores (mma.sp); {ELSEWHERE}",
    **dict.fromkeys(("cp.async.bulk", "cp.reduce.async.bulk", "tensormap", "fence.proxy.tensormap", "st.bulk"), _TMA),
    **dict.fromkeys(("cp.async.mbarrier", "mbarrier"), _BARRIER),
    "multimem": f"the emulated device has no memory of several GPUs (multimem); {ELSEWHERE}",
    "setmaxnreg": f"the emulated device cannot change the number of registers of a running warp (setmaxnreg); {ELSEWHERE}",
    **dict.fromkeys(("mapa", "getctarank", "barrier.cluster", "clusterlaunchcontrol", "st.async", "red.async"), CLUSTER),
    **dict.fromkeys(("tex", "tld4", "txq"), _TEXTURE),
    **dict.fromkeys(("suld", "sust", "sured", "suq"), _SURFACE),
    "call": f"the emulated device calls no functions from inline PTX; {ELSEWHERE}",
    "ret": f"the emulated device cannot leave a function from inline PTX (ret); return in CUDA C++, or {ELSEWHERE}",
    "brx": f"the emulated device has no branch tables in inline PTX; {ELSEWHERE}",
}
# Special registers: the C++ function that reads each.
SPECIAL = {
    **{f"{name}.{axis}": f"{name}_{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{"clock": "clock_cycles_low", "clock_hi": "clock_cycles_high", "clock64": "clock_cycles"},
    **dict.fromkeys(("globaltimer", "globaltimer_lo"), "global_timer"),
    **{name: name for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid")},
    **{name: name for name in ("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge")},
    **{"dynamic_smem_size": "dynamic_shared_bytes", "WARP_SZ": "warp_lanes"},
}


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
and         | T=T,T         | B pred       |                      | bit_and
or          | T=T,T         | B pred       |                      | bit_or
xor         | T=T,T         | B pred       |                      | bit_xor
not         | T=T           | B pred       |                      | bit_not
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

    def declare(self, declaration: Declaration) -> str:
        """C++ declarations; no initialiser, as a jump may not pass one."""
        if declaration.type not in TYPES:
            raise PtxUnsupported(declaration.position, f"the emulated device has no registers of type '.{declaration.type}'; {ELSEWHERE}")
        bits, text = TYPES[declaration.type][1], ""
        for name in declaration.names:
            self.count += 1
            local = self.registers[-1][name] = Local(f"emu_r{self.count}", bits)
            text += f"{cpp_register(bits)} {local.name}; ::emu::ptx::emu_undefined({local.name}); "
        return text

    def register(self, name: str) -> Local | None:
        """The register of the innermost block that declares the name."""
        return next((names[name] for names in reversed(self.registers) if name in names), None)


@dataclass(frozen=True, slots=True)
class PtxOperation:
    """An instruction in the scope that gives its operands their meaning."""

    opcode: str
    operands: tuple[Operand, ...]
    position: int
    scope: PtxScope

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def words(self) -> list[str]:
        """The modifiers, types among them."""
        return self.opcode.split(".")[1:]

    def unsupported(self, sentence: str) -> PtxUnsupported:
        """The error that refuses the instruction."""
        return PtxUnsupported(self.position, sentence)

    def refuse(self, modifier: str = "") -> PtxUnsupported:
        """The error about a form, or a modifier, that the emulated device has not."""
        form = f"'.{modifier}' of the PTX instruction" if modifier else "this form of the PTX instruction"
        return self.unsupported(f"the emulated device does not know {form} '{self.opcode}'; {ELSEWHERE}")

    def need(self, *counts: int) -> None:
        """Refuse any other number of operands."""
        if len(self.operands) not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.unsupported(f"'{self.opcode}' has {len(self.operands)} operands, not {wanted}")

    def accept(self, *allowed: str) -> None:
        """Refuse any other modifier."""
        for word in self.words:
            if word not in allowed:
                raise self.refuse(word)

    def choice(self, names: Collection[str]) -> str:
        """The first modifier that is one of these."""
        for word in self.words:
            if word in names:
                return word
        raise self.refuse()

    def last_type(self, types: Collection[str] = TYPES) -> str:
        """The last modifier that is one of these types."""
        for word in reversed(self.words):
            if word in types:
                return word
        raise self.refuse()

    def local(self, operand: Operand) -> Local:
        """The variable of an operand of the statement, or of a register."""
        if isinstance(operand, AsmParameter):
            if operand.index >= len(self.scope.parameters):
                raise self.unsupported(f"the asm statement has no operand %{operand.index}")
            return self.scope.parameters[operand.index]
        if not isinstance(operand, Register):
            raise self.unsupported(f"the emulated device cannot read an operand of '{self.opcode}'; {ELSEWHERE}")
        if (local := self.scope.register(operand.name)) is not None:
            return local
        if operand.name.startswith(("cluster_", "nclusterid", "clusterid", "is_explicit_cluster")):
            raise self.unsupported(CLUSTER)
        missing = "is not declared in this asm statement, nor a special register that is known"
        raise self.unsupported(f"the register '{operand.name}' {missing}; {ELSEWHERE}")

    def is_predicate(self, operand: Operand) -> bool:
        """Return whether an operand is a predicate register."""
        inner = operand.operand if isinstance(operand, Negated) else operand
        local = self.scope.register(inner.name) if isinstance(inner, Register) else None
        return local is not None and local.bits == 1

    def _check_fit(self, local: Local, type_: str) -> None:
        bits = ALL_TYPES[type_][1]
        if (bits == 1) != (local.bits == 1) or local.bits < bits:
            size = "is a predicate" if local.bits == 1 else f"has {local.bits} bits"
            raise self.unsupported(f"an operand of '{self.opcode}' {size}, which does not fit the type '.{type_}'")

    def read(self, operand: Operand, type_: str) -> str:
        """The C++ expression of an operand, read as a type."""
        cpp = ALL_TYPES[type_][0]
        if isinstance(operand, Negated):
            return f"!{self.read(operand.operand, 'pred')}"
        if isinstance(operand, Immediate):
            if type_ == "pred":
                return "true" if operand.text not in ("0", "-0") else "false"
            if operand.float_bits and operand.text.startswith("0x"):
                return f"::emu::ptx::emu_read<{cpp}>({operand.text})"
            if operand.float_bits or type_ in ("f32", "f64"):
                return f"static_cast<{cpp}>({operand.text})"
            suffix = "ll" if operand.text.startswith("-") else "ull"
            return f"::emu::ptx::emu_read<{cpp}>(static_cast<uint64_t>({operand.text}{suffix}))"
        if isinstance(operand, Register) and operand.name in SPECIAL and self.scope.register(operand.name) is None:
            return f"static_cast<{cpp}>(::emu::ptx::emu_{SPECIAL[operand.name]}())"
        local = self.local(operand)
        self._check_fit(local, type_)
        return local.name if local.bits == 1 else f"::emu::ptx::emu_read<{cpp}>({local.name})"

    def reads(self, operands: Iterable[Operand], type_: str) -> str:
        """The C++ expressions of several operands, as arguments."""
        return ", ".join(self.read(operand, type_) for operand in operands)

    def write(self, operand: Operand, type_: str, value: str) -> str:
        """The C++ statement that gives an operand a value of a type."""
        if isinstance(operand, Sink):
            return f"(void)({value}); "
        local = self.local(operand)
        if not local.written:
            raise self.unsupported(f"'{self.opcode}' writes an operand that the asm statement lists as an input")
        self._check_fit(local, type_)
        return f"{local.name} = {value if local.bits == 1 else f'::emu::ptx::emu_write<{cpp_register(local.bits)}>({value})'}; "


def cpp_register(bits: int) -> str:
    """The C++ type of a register of that many bits."""
    return "bool" if bits == 1 else f"uint{bits}_t"
