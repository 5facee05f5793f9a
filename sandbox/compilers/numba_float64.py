"""Finds why a Numba kernel on float32 computes in float64: a plain `0.0` is a float64, and an int64 makes one of a float32.

From the types that Numba inferred for every variable; a line is only named where the PTX has arithmetic in float64 for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.compilers import float64
from sandbox.compilers.numba_ptx import NumbaKernel

_NARROW = frozenset(("float32", "float16"))
_INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"))
_ARITHMETIC = frozenset(("binop", "inplace_binop"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where an operand that makes a float64 comes from. rank: the least is the best explanation; line: 0 where its own says little."""

    rank: int
    what: str
    type: str
    remedy: str
    line: int


def remarks(kernel: NumbaKernel, path: str) -> tuple[str, ...]:
    """Sentences, each with the line of the literal that is to blame, or of what is computed with an argument or global. path: the file's,
    as it was submitted."""
    places = float64.instructions([kernel.ptx]).get(kernel.entry, [])
    lines = {place.line for place in places} | {place.caller_line for place in places}
    if not places or _is_on_float64(kernel.types):
        return ()
    found: dict[str, None] = {}
    for line, origin, accumulates in _promotions(kernel.types):
        if line in lines:
            does = "accumulates" if accumulates else "computes"
            why = f"{origin.what} is an {origin.type}, and with float32 that makes a float64"
            why = f"{origin.what} is a float64" if origin.type == "float64" else why
            found[f"{path}:{origin.line or line}: {does} in float64: {why}; write `{origin.remedy}`"] = None
    return tuple(found)[: float64.REMARK_LIMIT]


def _is_on_float64(types: Any) -> bool:
    """Whether an argument is an array of float64: then it is meant."""
    arguments = (value for name, value in types.typemap.items() if name.startswith("arg."))
    return any(str(getattr(one, "dtype", "")) in ("float64", "complex128") for one in arguments)


def _promotions(types: Any) -> Iterator[tuple[int, _Origin, bool]]:
    """Each operation on a float32 that makes a float64: its line, what the other operand comes from, and whether it is a sum's own next."""
    definitions: dict[str, list[Any]] = {}
    assignments = [one for block in types.blocks.values() for one in block.body if type(one).__name__ == "Assign"]
    for one in assignments:
        definitions.setdefault(one.target.name, []).append(one)
    for one in assignments:
        if getattr(one.value, "op", "") not in _ARITHMETIC or _type(types, one.target) != "float64":
            continue
        operands = (one.value.lhs, one.value.rhs)
        wide = [operand for operand in operands if _type(types, operand) not in _NARROW]
        if len(wide) != 1:
            continue
        origins, passed = _origins(wide[0], definitions, types)
        if origins:
            yield one.loc.line, min(origins, key=lambda origin: (origin.rank, origin.line)), one.target.name in passed


def _origins(variable: Any, definitions: dict[str, list[Any]], types: Any) -> tuple[list[_Origin], set[str]]:
    """What a variable may come from, and the variables on the way."""
    found: list[_Origin] = []
    waiting, passed = [variable.name], set[str]()
    while waiting:
        name = waiting.pop()
        if name in passed:
            continue
        passed.add(name)
        for one in definitions.get(name, ()):
            origin = _origin(one, types)
            if origin is not None:
                found.append(origin)
            elif type(one.value).__name__ == "Var":
                waiting.append(one.value.name)
            elif getattr(one.value, "op", "") in ("cast", "phi"):
                waiting += [operand.name for operand in one.value.list_vars()]
    return found, passed


def _origin(assignment: Any, types: Any) -> _Origin | None:
    value, kind = assignment.value, _type(types, assignment.target)
    if kind != "float64" and kind not in _INTEGERS:
        return None
    match type(value).__name__:
        case "Const":
            return _Origin(
                rank=0, what=f"the literal `{value.value!r}`", type=kind, remedy=f"np.float32({value.value!r})", line=assignment.loc.line
            )
        case "Arg":
            return _Origin(rank=1, what=f"the argument `{value.name}`", type=kind, remedy=f"np.float32({value.name})", line=0)
        case "Global" | "FreeVar":
            return _Origin(rank=1, what=f"the global `{value.name}`", type=kind, remedy=f"np.float32({value.name})", line=0)
    return None


def _type(types: Any, variable: Any) -> str:
    """Numba's name of a variable's type; of a literal, that of its value."""
    found = types.typemap.get(getattr(variable, "name", ""))
    return str(getattr(found, "literal_type", found))
