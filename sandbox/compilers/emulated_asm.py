"""What takes the place of an asm statement on the emulated device, or why nothing can."""

from dataclasses import dataclass

from sandbox.compilers import asm_statement, ptx_translation
from sandbox.compilers.cuda_tokens import Token
from sandbox.compilers.emulation_limits import Unsupported
from sandbox.compilers.ptx_scope import PtxUnsupported


@dataclass(frozen=True, slots=True)
class AsmReplacement:
    """Bytes of the source from `start` to `end`, and those that replace them on as many lines."""

    start: int
    end: int
    text: bytes


def translated(code: bytes, token: Token, path: str, headers: set[str], *, host: bool) -> AsmReplacement | None:
    """Translate the statement that begins with a token; None for one that is the host's or only stops the compiler.

    host: the file may be one of the host, so that its macros need not be PTX. headers: gets what the text needs.
    """
    if not token.in_function and not token.in_macro:
        return None
    device = token.in_device_code or (token.in_macro and not host)
    try:
        statement = asm_statement.read(code, token.start, token.end)
    except asm_statement.AsmSyntaxError as error:
        if device:
            raise Unsupported(path, token.line, error.sentence) from None
        return None
    if not statement.has_instructions or not (device or ptx_translation.looks_like_ptx(statement)):
        return None
    try:
        translation = ptx_translation.translate(statement)
    except PtxUnsupported as error:
        raise Unsupported(path, 1 + code.count(b"\n", 0, statement.byte_of(error.position)), error.sentence) from None
    headers |= translation.headers
    ends = ("\\\n" if token.in_macro else "\n") * code.count(b"\n", statement.start, statement.end)
    return AsmReplacement(statement.start, statement.end, (translation.text + ends).encode(errors="surrogateescape"))
