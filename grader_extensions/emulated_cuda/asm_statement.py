"""Reads an asm statement of CUDA C++: its template and its operands, and where each is.  Knows no PTX."""

import re
from dataclasses import dataclass

PIECE = re.compile(
    rb"""(?P<raw>R"(?P<delimiter>[^\s()\\]{0,16})\((?P<body>.*?)\)(?P=delimiter)")
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<character>'(?:[^'\\\n]|\\.)*')
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<splice>\\\r?\n)
    |(?P<directive>^[ \t]*\#[ \t]*\w+)
    |(?P<opening>[(\[{])
    |(?P<closing>[)\]}])
    |(?P<colon>:)
    |(?P<comma>,)
    |(?P<word>\w+)
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\n", "\\": "\\", '"': '"', "'": "'", "v": " ", "f": " "}
DEFINED = rb"^[ \t]*#[ \t]*define[ \t]+%s[ \t]+((?:\"(?:[^\"\\]|\\.)*\"[ \t]*)+)"

NOT_LITERAL = "the emulated device reads inline PTX only from string literals, and this asm statement's text holds {what}"
CONDITIONAL = (
    "the emulated device cannot read an asm statement with preprocessor conditionals inside; put the whole statement into each branch"
)
ODD = "this asm statement cannot be read by the emulated device"


class AsmSyntaxError(Exception):
    """The statement has a form that is not read; says why in one sentence."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class AsmOperand:
    """`[name] "=r"(expression)`."""

    constraint: str
    expression: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsmStatement:
    """From the word `asm` to the closing parenthesis.  start, end: bytes of the source; lines: how many of its ends are inside."""

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


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    start: int


def read(code: bytes, start: int, end: int) -> AsmStatement:
    """Read the statement whose word `asm` lies from `start` to `end`."""
    sections, closing = _sections(code, end)
    if len(sections) > 4:
        raise AsmSyntaxError("the emulated device has no `asm goto`")
    pieces = sections[0]
    template, segments = "", []
    for piece in pieces:
        if piece.kind == "space":
            continue
        segments.append((len(template), piece.start))
        if piece.kind == "string":
            template += _unescape(piece.text)
        elif piece.kind == "raw":
            inside = piece.text[piece.text.index("(") + 1 : piece.text.rindex(")")]
            template += inside.replace("\\\n", "\n")
        elif piece.kind == "word":
            # The string that the file defines a macro as, where it defines one only.
            values = {
                value.decode(errors="surrogateescape") for value in re.findall(DEFINED % re.escape(piece.text.encode()), code, re.MULTILINE)
            }
            if len(values) != 1:
                raise AsmSyntaxError(NOT_LITERAL.format(what=f"'{piece.text}'"))
            template += "".join(_unescape(literal) for literal in re.findall(r'"(?:[^"\\]|\\.)*"', values.pop()))
        else:
            raise AsmSyntaxError(NOT_LITERAL.format(what=f"'{piece.text}'"))
    outputs = _operands(sections[1]) if len(sections) > 1 else ()
    inputs = _operands(sections[2]) if len(sections) > 2 else ()
    return AsmStatement(start=start, end=closing, template=template, outputs=outputs, inputs=inputs, segments=tuple(segments))


def _sections(code: bytes, at: int) -> tuple[list[list[_Piece]], int]:
    """Return the pieces between the parentheses, parted by colons; and the end."""
    sections: list[list[_Piece]] = [[]]
    depth, opened = 0, False
    while at < len(code):
        match = PIECE.match(code, at)
        if match is None:
            break
        kind, text = match.lastgroup or "", match[0].decode(errors="surrogateescape")
        kind = "raw" if match["raw"] else kind
        if depth == 0 and text != "(" and kind in ("opening", "string", "raw"):
            break
        depth += (kind == "opening") - (kind == "closing")
        if kind == "directive":
            raise AsmSyntaxError(CONDITIONAL)
        if depth == 0 and kind == "closing":
            return sections, match.end()
        if kind == "colon" and depth == 1:
            sections.append([])
        elif depth > 1 or (depth == 1 and (kind != "opening" or opened)):
            blank = kind in ("comment", "splice", "space")
            sections[-1].append(_Piece("space", " ", at) if blank else _Piece(kind, text, at))
        opened = opened or depth > 0
        at = match.end()
    raise AsmSyntaxError(ODD)


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
        depth += (piece.kind == "opening") - (piece.kind == "closing")
        if piece.kind == "comma" and depth == 0:
            groups.append([])
        else:
            groups[-1].append(piece)
    return tuple(_operand(group) for group in groups if any(piece.kind != "space" for piece in group))


def _operand(pieces: list[_Piece]) -> AsmOperand:
    """`[name] "constraint" (expression)`."""
    place = next((at for at, piece in enumerate(pieces) if piece.kind == "string"), None)
    if place is None:
        raise AsmSyntaxError(ODD)
    name = "".join(piece.text for piece in pieces[:place] if piece.kind == "word")
    after = next((at for at in range(place + 1, len(pieces)) if pieces[at].kind != "space"), None)
    if after is None or pieces[after].text != "(":
        raise AsmSyntaxError(ODD)
    expression = "".join(piece.text for piece in pieces[after:])
    return AsmOperand(pieces[place].text[1:-1], " ".join(expression.split()), name)
