"""The names that hold at one place of a PTX template, and how C++ reads and writes what they name."""

from dataclasses import dataclass, field

from sandbox.compilers.ptx_instructions import CLUSTER, ELSEWHERE, SPECIAL, TYPES
from sandbox.compilers.ptx_tree import AsmParameter, Immediate, Instruction, Negated, Operand, Register, Sink

REGISTER_TYPES = {**{name: bits for name, (_, bits) in TYPES.items()}, "b128": 128}


class PtxUnsupported(Exception):
    """The emulated device does not run this; `position` is the character of the template."""

    def __init__(self, position: int, sentence: str) -> None:
        self.position = position
        self.sentence = sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class Local:
    """A C++ variable that stands for a register or an operand of the statement."""

    name: str
    bits: int
    written: bool = True


@dataclass(slots=True)
class PtxScope:
    """What the names mean: the statement's operands, then registers by the block that declares them, the innermost last."""

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
        """Whether an operand is a predicate register."""
        inner = operand.operand if isinstance(operand, Negated) else operand
        found = [names[inner.name] for names in self.registers if inner.name in names] if isinstance(inner, Register) else []
        return bool(found) and found[-1].bits == 1

    def read(self, operand: Operand, type_: str, op: Instruction) -> str:
        """The C++ expression of an operand, read as a type."""
        cpp, bits = TYPES[type_]
        if isinstance(operand, Negated):
            return f"!{self.read(operand.operand, 'pred', op)}"
        if isinstance(operand, Immediate):
            return _constant(operand, type_)
        if isinstance(operand, Register) and operand.name in SPECIAL and not self._declared(operand.name):
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
        bits = TYPES[type_][1]
        if (bits == 1) != (local.bits == 1) or local.bits < bits:
            raise PtxUnsupported(op.position, _mismatch(op, local, type_))
        return f"{local.name} = {value}; " if bits == 1 else f"{local.name} = ::emu::ptx::emu_write<{cpp_register(local.bits)}>({value}); "

    def _declared(self, name: str) -> bool:
        return any(name in names for names in self.registers)


def cpp_register(bits: int) -> str:
    """The C++ type of a register of that many bits."""
    return "bool" if bits == 1 else f"uint{bits}_t"


def _mismatch(op: Instruction, local: Local, type_: str) -> str:
    has = "is a predicate" if local.bits == 1 else f"has {local.bits} bits"
    return f"an operand of '{op.opcode}' {has}, which does not fit the type '.{type_}'"


def _constant(value: Immediate, type_: str) -> str:
    cpp, _ = TYPES[type_]
    if type_ == "pred":
        return "true" if value.text not in ("0", "-0") else "false"
    if value.float_bits and value.text.startswith("0x"):
        return f"::emu::ptx::emu_read<{cpp}>({value.text})"
    if value.float_bits or type_ in ("f32", "f64"):
        return f"static_cast<{cpp}>({value.text})"
    suffix = "ll" if value.text.startswith("-") else "ull"
    return f"::emu::ptx::emu_read<{cpp}>(static_cast<uint64_t>({value.text}{suffix}))"
