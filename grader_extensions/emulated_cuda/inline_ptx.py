"""Reads an asm statement of CUDA C++ and its template, which is PTX, into a tree. Knows the grammar (PTX ISA, chapter 4) only."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PIECE = re.compile(
    rb"""(?P<raw>R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)")
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<character>'(?:[^'\\\n]|\\.)*')
    |(?P<directive>^[ \t]*\#[ \t]*\w+)
    |(?P<space>//[^\n]*|/\*.*?\*/|\\\r?\n|\s)
    |(?P<opening>[(\[{])
    |(?P<closing>[)\]}])
    |(?P<word>\w+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\n", "\\": "\\", '"': '"', "'": "'", "v": " ", "f": " "}
DEFINED = rb"^[ \t]*#[ \t]*define[ \t]+%s[ \t]+((?:\"(?:[^\"\\]|\\.)*\"[ \t]*)+)"

NOT_LITERAL = "the emulated device reads inline PTX only from string literals, and this asm statement's text holds {what}"
CONDITIONAL = (
    "the emulated device cannot read an asm statement with preprocessor conditionals inside; put the whole statement into each branch"
)
ODD = "this asm statement cannot be read by the emulated device"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(
    r"""(?P<parameter>%\d+|%\[\w+\])
    |(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+U?)
    |(?P<word>%{0,2}[A-Za-z_$][\w$]*(?:\.(?:\w|::)+)*)
    |(?P<directive>\.(?:\w|::)+)
    |(?P<mark>[][{}(),;:@!|+<>-])
    |(?P<space>\s+)""",
    re.VERBOSE,
)


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
    """Instruction; `guard` is the predicate under which it runs."""

    opcode: str
    operands: tuple[Operand, ...]
    position: int
    guard: Operand | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`, in which the names that it declares hold."""

    items: tuple["Item", ...]


Item = Declaration | Label | Instruction | Block


class PtxUnsupported(Exception):
    """A template that the emulated device does not run, with a sentence; `position` is the character where."""

    def __init__(self, position: int, sentence: str) -> None:
        self.position, self.sentence = position, sentence
        super().__init__(sentence)


class PtxSyntaxError(PtxUnsupported):
    """The template cannot be read."""

    def __init__(self, position: int, sentence: str) -> None:
        super().__init__(position, f"this inline PTX cannot be read: {sentence}")


class AsmSyntaxError(Exception):
    """The statement has a form that is not read; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class AsmOperand:
    """`[name] "=r"(expression)`."""

    constraint: str
    expression: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsmStatement:
    """From the word `asm` to the closing parenthesis. start, end: bytes of the source."""

    start: int
    end: int
    template: str
    outputs: tuple[AsmOperand, ...]
    inputs: tuple[AsmOperand, ...]
    segments: tuple[tuple[int, int], ...]  # character of the template where a literal starts, and that literal's byte in the source

    @property
    def has_instructions(self) -> bool:
        """Return whether it does more than stop the compiler, as `asm volatile("" ::: "memory")` does."""
        return bool(self.template.strip() or self.outputs or self.inputs)

    def byte_of(self, position: int) -> int:
        """Where in the source the literal starts to which a character of the template belongs."""
        return max((byte for first, byte in self.segments if first <= position), default=self.start)


_Piece = re.Match[bytes]


def read_statement(code: bytes, start: int, end: int) -> AsmStatement:
    """Read the statement whose word `asm` lies from `start` to `end`; AsmSyntaxError where that is not possible."""
    (text, *sections), closing = _sections(code, end)
    if len(sections) > 3:
        raise AsmSyntaxError("the emulated device has no `asm goto`")
    template, segments = "", []
    for piece in text:
        if piece.lastgroup == "space":
            continue
        segments.append((len(template), piece.start()))
        template += _literal(piece, code)
    outputs, inputs, *_ = (*map(_operands, sections[:2]), (), ())
    return AsmStatement(start=start, end=closing, template=template, outputs=outputs, inputs=inputs, segments=tuple(segments))


def _sections(code: bytes, at: int) -> tuple[list[list[_Piece]], int]:
    """Return the pieces between the parentheses, parted by colons; and the end."""
    sections: list[list[_Piece]] = [[]]
    depth = 0
    for piece in PIECE.finditer(code, at):
        kind = piece.lastgroup
        if depth == 0 and piece[0] != b"(" and kind in ("opening", "string", "raw"):
            break
        outermost = depth == 0  # the opening parenthesis, and what stands before it
        depth += (kind == "opening") - (kind == "closing")
        if kind == "directive":
            raise AsmSyntaxError(CONDITIONAL)
        if depth == 0 and kind == "closing":
            return sections, piece.end()
        if depth == 1 and piece[0] == b":":
            sections.append([])
        elif not outermost:
            sections[-1].append(piece)
    raise AsmSyntaxError(ODD)


def _literal(piece: _Piece, code: bytes) -> str:
    """The text of a string, or of the only string that the file defines a macro as."""
    text = _decoded(piece[0])
    if piece.lastgroup == "string":
        return _unescape(text)
    if piece.lastgroup == "raw":
        return text[text.index("(") + 1 : text.rindex(")")].replace("\\\n", "\n")
    values = set(re.findall(DEFINED % re.escape(piece[0]), code, re.MULTILINE)) if piece.lastgroup == "word" else set()
    if len(values) != 1:
        raise AsmSyntaxError(NOT_LITERAL.format(what=f"'{text}'"))
    return "".join(map(_unescape, re.findall(r'"(?:[^"\\]|\\.)*"', _decoded(values.pop()))))


def _decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def _unescape(literal: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            raise AsmSyntaxError(NOT_LITERAL.format(what=f"'{match[0]}'"))
        return ESCAPES[match[1]]

    return re.sub(r"\\(.)", plain, re.sub(r"\\\r?\n", "", literal[1:-1]), flags=re.DOTALL)


def _operands(pieces: list[_Piece]) -> tuple[AsmOperand, ...]:
    groups: list[list[_Piece]] = [[]]
    depth = 0
    for piece in pieces:
        depth += (piece.lastgroup == "opening") - (piece.lastgroup == "closing")
        if depth == 0 and piece[0] == b",":
            groups.append([])
        else:
            groups[-1].append(piece)
    return tuple(_operand(group) for group in groups if any(piece.lastgroup != "space" for piece in group))


def _operand(pieces: list[_Piece]) -> AsmOperand:
    """`[name] "constraint" (expression)`."""
    place = next((at for at, piece in enumerate(pieces) if piece.lastgroup == "string"), len(pieces))
    expression = b"".join(b" " if piece.lastgroup == "space" else piece[0] for piece in pieces[place + 1 :]).strip()
    if not expression.startswith(b"("):
        raise AsmSyntaxError(ODD)
    name = b"".join(piece[0] for piece in pieces[:place] if piece.lastgroup == "word")
    return AsmOperand(_decoded(pieces[place][0])[1:-1], " ".join(_decoded(expression).split()), _decoded(name))


@dataclass(frozen=True, slots=True)
class _PtxToken:
    kind: str
    text: str
    position: int


def parse(template: str, names: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """Read a template; `names` are those of the statement's operands, "" for one that has none."""
    # `%=` is a number of the statement's own; names are the statement's own anyhow.
    blank = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), template.replace("%=", "_0"))
    reader = _TemplateReader(list(_tokens(blank)), names)
    items = tuple(reader.items())
    if reader.next.text:
        raise PtxSyntaxError(reader.next.position, f"'{reader.next.text}' is not expected here")
    return items


def _tokens(template: str) -> Iterator[_PtxToken]:
    at = 0
    while at < len(template):
        match = TOKEN.match(template, at)
        if match is None:
            raise PtxSyntaxError(at, f"'{template[at]}' is not expected here")
        if match.lastgroup != "space":
            yield _PtxToken(match.lastgroup or "", match[0], at)
        at = match.end()


class _TemplateReader:
    def __init__(self, tokens: list[_PtxToken], names: tuple[str, ...]) -> None:
        last = tokens[-1].position if tokens else 0
        self._tokens = [*tokens, _PtxToken("end", "", last)]
        self._names = names
        self._at = 0

    @property
    def next(self) -> _PtxToken:
        return self._tokens[self._at]

    def _take(self) -> _PtxToken:
        token = self.next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _skip(self, text: str) -> bool:
        if self.next.text != text:
            return False
        self._take()
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise PtxSyntaxError(self.next.position, f"'{text}' is expected before '{self.next.text or 'the end'}'")

    def items(self) -> Iterator[Item]:
        while self.next.text and self.next.text != "}":
            if not self._skip(";"):
                yield self._item()

    def _item(self) -> Item:
        token = self.next
        if self._skip("{"):
            items = tuple(self.items())
            self._expect("}")
            return Block(items)
        if token.text == ".reg":
            return self._declaration()
        if token.kind == "word" and self._tokens[self._at + 1].text == ":":
            self._take(), self._take()
            return Label(_plain(token.text))
        return self._instruction()

    def _declaration(self) -> Declaration:
        position = self._take().position
        type_ = self._take()
        if type_.kind != "directive":
            raise PtxSyntaxError(type_.position, f"'{type_.text}' is not the type of a register")
        names: list[str] = []
        while True:
            name = self._take()
            if name.kind != "word":
                raise PtxSyntaxError(name.position, f"'{name.text}' is not the name of a register")
            if self._skip("<"):  # r<4> declares r0 to r3
                names += [f"{_plain(name.text)}{number}" for number in range(int(self._take().text, 0))]
                self._expect(">")
            else:
                names.append(_plain(name.text))
            if not self._skip(","):
                break
        self._end()
        return Declaration(type_.text[1:], tuple(names), position)

    def _instruction(self) -> Instruction:
        guard: Operand | None = None
        if self._skip("@"):
            guard = self._operand()
        opcode = self._take()
        if opcode.kind != "word":
            raise PtxSyntaxError(opcode.position, f"'{opcode.text}' is not an instruction")
        text = opcode.text
        while self.next.kind == "directive":  # an opcode in two strings
            text += self._take().text
        operands: list[Operand] = []
        while self.next.text not in (";", "}", ""):
            operands.append(self._operand())
            if not self._skip(","):
                break
        self._end()
        return Instruction(text, tuple(operands), opcode.position, guard)

    def _end(self) -> None:
        """The semicolon, which may be missing after the last instruction."""
        if self.next.text not in ("}", ""):
            self._expect(";")

    def _operand(self) -> Operand:
        first = self._simple()
        return Pair(first, self._simple()) if self._skip("|") else first

    def _simple(self) -> Operand:
        token = self._take()
        match token.text:
            case "{":
                parts = [self._operand()]
                while self._skip(","):
                    parts.append(self._operand())
                self._expect("}")
                return Vector(tuple(parts))
            case "[":
                return self._address()
            case "!":
                return Negated(self._simple())
            case "-":
                operand = self._simple()
                if not isinstance(operand, Immediate) or operand.float_bits:
                    raise PtxSyntaxError(token.position, "a minus sign stands only before a number")
                return Immediate(f"-{operand.text}")
            case "_":
                return Sink()
        match token.kind:
            case "parameter":
                if token.text[1] != "[":
                    return AsmParameter(int(token.text[1:]))
                name = token.text[2:-1]
                if name not in self._names:
                    raise PtxSyntaxError(token.position, f"no operand of the statement is named '{name}'")
                return AsmParameter(self._names.index(name))
            case "number":
                return _immediate(token.text)
            case "word":
                return Register(_plain(token.text))
        raise PtxSyntaxError(token.position, f"'{token.text or 'the end'}' is not an operand")

    def _address(self) -> Address:
        terms = [self._simple()]
        while self.next.text in ("+", "-"):
            self._skip("+")  # a minus sign belongs to the number
            terms.append(self._simple())
        coordinates = self._skip(",")
        if coordinates:
            self._operand()
        self._expect("]")
        return Address(tuple(terms), coordinates)


def _plain(name: str) -> str:
    return name.lstrip("%")


def _immediate(text: str) -> Immediate:
    if text[:2] in ("0f", "0F"):
        return Immediate(f"0x{text[2:]}u", 32)
    if text[:2] in ("0d", "0D"):
        return Immediate(f"0x{text[2:]}ull", 64)
    if "." in text:
        return Immediate(text, 64)
    digits = text.rstrip("U")
    return Immediate(f"{int(digits, 8 if digits[0] == '0' and digits.isdigit() else 0)}")
