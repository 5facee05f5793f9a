"""What a template of inline PTX consists of: items, and the operands of instructions (PTX ISA, chapter 4)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AsmParameter:
    """An operand of the asm statement, `%0`."""

    index: int


@dataclass(frozen=True, slots=True)
class Register:
    """A declared register, a special one, or a label; without percent signs."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: its C++ text, and how many bits it has if it is given as a float's bits."""

    text: str
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`, where a result is not wanted."""


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[a + b]`; with coordinates behind a comma it is one of a tensor."""

    terms: tuple["Operand", ...]
    has_coordinates: bool = False


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: a result and the predicate that comes with it."""

    first: "Operand"
    second: "Operand"


Operand = AsmParameter | Register | Immediate | Sink | Vector | Address | Negated | Pair


@dataclass(frozen=True, slots=True)
class Declaration:
    """`.reg .b32 a, b;`."""

    type: str
    names: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `guard` is the predicate under which it runs."""

    opcode: str
    operands: tuple[Operand, ...]
    position: int
    guard: Operand | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`, in which the names that it declares hold."""

    items: tuple["Item", ...]


Item = Declaration | Label | Instruction | Block
