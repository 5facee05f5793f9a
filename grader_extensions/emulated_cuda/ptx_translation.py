"""Translates an asm statement of device code into a C++ expression over `emu/ptx/*.h`.

Operands are copied into bit patterns, the instructions work on those, and the outputs are assigned last.  An output or register that
nothing wrote holds poison.
"""

import difflib
import re
from collections.abc import Iterator

from grader_extensions.emulated_cuda.inline_ptx import (
    AsmOperand,
    AsmStatement,
    AsmSyntaxError,
    Block,
    Declaration,
    Instruction,
    Item,
    Label,
    PtxUnsupported,
    parse,
    read_statement,
)
from grader_extensions.emulated_cuda.ptx_emitters import EMITTERS, label
from grader_extensions.emulated_cuda.ptx_instructions import (
    ELSEWHERE,
    FLAGS,
    IGNORED,
    NAME_PARTS,
    REFUSED,
    RULES,
    TYPES,
    WIDE,
    Local,
    PtxOperation,
    PtxScope,
    cpp_register,
)
from sandbox.compilers.cuda_tokens import Token
from sandbox.compilers.steps import Unsupported

CONSTRAINTS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64, "n": 64, "i": 64}
HEADER = "emu/ptx/ptx.h"
PTX_OPCODE = re.compile(r"(?:^|[;{}:\n])\s*(?:@!?[%\w]+\s+)?(?:\.reg\s|[a-z]\w*\.[a-z])")


def translate(statement: AsmStatement) -> tuple[str, set[str]]:
    """Return the expression that stands for a statement, and the headers that it needs.

    Raises PtxUnsupported for what the emulated device does not run.
    """
    items = parse(statement.template, tuple(operand.name for operand in (*statement.outputs, *statement.inputs)))
    parameters: list[Local] = []
    for operand in statement.outputs:
        parameters.append(Local(f"emu_{len(parameters)}", _bits(operand)))
    for operand in statement.inputs:
        if operand.constraint.isdigit():  # the same register as that output
            tied = int(operand.constraint)
            if tied >= len(statement.outputs):
                raise PtxUnsupported(0, f"the asm statement has no output {tied}")
            parameters.append(parameters[tied])
        else:
            parameters.append(Local(f"emu_{len(parameters)}", _bits(operand), written=False))
    scope = PtxScope(parameters)
    body = "".join(_item(item, scope) for item in items)
    labels = ", ".join(map(label, dict.fromkeys(_labels(items))))
    declared = f"__label__ {labels}; " if labels else ""
    after = "".join(f"::emu::ptx::emu_out(emu_o{at}, {parameters[at].name}); " for at in range(len(statement.outputs)))
    return f"({{ {declared}{_before(statement, scope)}{body}{after}}})", {HEADER, *scope.headers}


def _bits(operand: AsmOperand) -> int:
    letters = operand.constraint.lstrip("=+&")
    if letters[:1] not in CONSTRAINTS:
        raise PtxUnsupported(0, f'the emulated device does not know the asm constraint "{operand.constraint}"; {ELSEWHERE}')
    return CONSTRAINTS[letters[0]]


def _before(statement: AsmStatement, scope: PtxScope) -> str:
    text = ""
    for at, operand in enumerate(statement.outputs):
        local = scope.parameters[at]
        kind, reads = cpp_register(local.bits), operand.constraint.startswith("+")
        text += f"auto& emu_o{at} = {operand.expression}; {kind} {local.name}; "
        text += f"{local.name} = ::emu::ptx::emu_in<{kind}>(emu_o{at}); " if reads else f"::emu::ptx::emu_undefined({local.name}); "
    for at, operand in enumerate(statement.inputs, start=len(statement.outputs)):
        local = scope.parameters[at]
        value = f"::emu::ptx::emu_in<{cpp_register(local.bits)}>({operand.expression}); "
        text += f"{local.name} = {value}" if operand.constraint.isdigit() else f"const {cpp_register(local.bits)} {local.name} = {value}"
    return text


def _labels(items: tuple[Item, ...]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Label):
            yield item.name
        elif isinstance(item, Block):
            yield from _labels(item.items)


def _item(item: Item, scope: PtxScope) -> str:
    match item:
        case Declaration():
            return scope.declare(item)
        case Label():
            return f"{label(item.name)}:; "
        case Block():
            scope.registers.append({})
            text = "".join(_item(inner, scope) for inner in item.items)
            scope.registers.pop()
            return f"{{ {text}}} "
        case Instruction():
            op = PtxOperation(item.opcode, item.operands, item.position, scope)
            text = _instruction(op)
            return text if item.guard is None else f"if ({op.read(item.guard, 'pred')}) {{ {text}}} "


def _instruction(op: PtxOperation) -> str:
    for prefix, sentence in REFUSED.items():
        if op.opcode == prefix or op.opcode.startswith((f"{prefix}.", f"{prefix}::")):
            raise op.unsupported(sentence)
    if op.name in EMITTERS:
        return EMITTERS[op.name](op)
    # By the name and those modifiers that belong to it, as in `mad.lo.cc`.
    rule = RULES.get(".".join((op.name, *(word for word in op.words if word in NAME_PARTS)))) or RULES.get(op.name)
    if rule is None:
        opcodes = sorted({*EMITTERS, *(name.partition(".")[0] for name in RULES)})
        near = difflib.get_close_matches(op.name, opcodes, n=1, cutoff=0.4)
        hint = f" (the nearest that it knows is '{near[0]}')" if near else ""
        raise op.unsupported(f"the emulated device does not know the PTX instruction '{op.opcode}'{hint}; {ELSEWHERE}")
    op.accept(*NAME_PARTS, *rule.types, *rule.modifiers)
    types = [word for word in op.words if word in rule.types]
    flags = sum(FLAGS[word] for word in op.words if word in rule.modifiers and word not in IGNORED)
    if len(types) != 1 or (types == ["f64"] and flags & (FLAGS["rz"] | FLAGS["rm"] | FLAGS["rp"])):
        raise op.refuse()
    kinds = [{"T": types[0], "W": WIDE.get(types[0], "")}.get(kind, kind) for kind in re.split("[=,]", rule.form)]
    op.need(len(kinds))
    arguments = ", ".join(op.read(operand, kind) for operand, kind in zip(op.operands[1:], kinds[1:], strict=True))
    return op.write(op.operands[0], kinds[0], f"::emu::ptx::emu_{rule.function}<{TYPES[types[0]][0]}, {flags}>({arguments})")


def asm_replacement(code: bytes, token: Token, path: str, headers: set[str], *, host: bool) -> tuple[int, int, bytes] | None:
    """Translate the statement that begins with a token; None for one that is the host's or only stops the compiler.

    Returns where its bytes begin and end, and those that replace them on as many lines.

    host: the file may be one of the host, so that its macros need not be PTX. headers: gets what the text needs.
    """
    if not token.in_function and not token.in_macro:
        return None
    device = token.in_device_code or (token.in_macro and not host)
    try:
        statement = read_statement(code, token.start, token.end)
    except AsmSyntaxError as error:
        if device:
            raise Unsupported(path, token.line, str(error)) from None
        return None
    if not statement.has_instructions or not (device or (PTX_OPCODE.search(statement.template) is not None)):
        return None
    try:
        text, needed = translate(statement)
    except PtxUnsupported as error:
        raise Unsupported(path, 1 + code.count(b"\n", 0, statement.byte_of(error.position)), error.sentence) from None
    headers |= needed
    ends = ("\\\n" if token.in_macro else "\n") * code.count(b"\n", statement.start, statement.end)
    return statement.start, statement.end, (text + ends).encode(errors="surrogateescape")
