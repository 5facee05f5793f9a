"""Finds dropout that surely happens in a kernelbench file, by its text: what it drops no kernel can drop alike.  Executes nothing.

Only what is certain is reported: whether a probability that is computed is zero, the judge sees, which executes the file.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

_MODULES = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"}
_DEFAULT_P = 0.5
_LARGEST = 1e300  # for a number that no float holds
_HOPS = 8  # from a parameter to the constant that it is made of


@dataclass(frozen=True, slots=True)
class DropoutCall:
    """A dropout with a probability above zero."""

    line: int
    p: float

    @property
    def sentence(self) -> str:
        """For people."""
        return (
            f"dropout with p = {self.p:g} in train mode: which elements are dropped is drawn anew in every call, so no kernel can give "
            "Model's answer; set p to 0, or call self.eval() at the end of __init__"
        )


def certain(tree: ast.Module) -> DropoutCall | None:
    """The first such dropout; None where there is none, or none that is certain."""
    if any(isinstance(node, ast.Call) and _name(node.func) in ("eval", "train") for node in ast.walk(tree)):
        return None
    constants, parameters = _constants(tree), _model_parameters(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _MODULES:
            p = _value(_argument(node), {**constants, **parameters}, constants) if _argument(node) is not None else _DEFAULT_P
            if p is not None and p > 0:
                return DropoutCall(node.lineno, p)
    return None


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _argument(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "p"), None)


def _value(node: ast.expr | None, names: dict[str, ast.expr], constants: dict[str, ast.expr]) -> float | None:
    """The number that an expression surely is."""
    for _ in range(_HOPS):
        if isinstance(node, ast.Constant):
            return min(node.value, _LARGEST) * 1.0 if isinstance(node.value, (int, float)) else None
        if not isinstance(node, ast.Name):
            return None
        node, names = names.get(node.id), constants  # what stands in a parameter's place is written in the module
    return None


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the module sets once."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and value is not None:
                found[target.id] = ast.Name(id="") if target.id in found else value
    return found


def _model_parameters(tree: ast.Module) -> dict[str, ast.expr]:
    """What the parameters of Model's __init__ stand for, by get_init_inputs; those of other classes are not known."""
    owners = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    making = [(owner.name, one) for owner in owners for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    if [name for name, _ in making] != ["Model"]:  # of several classes' parameters one can't tell which is meant
        return {one.arg: ast.Name(id="") for _, function in making for one in function.args.args}
    arguments = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs"), None)
    returned = next((node.value for node in ast.walk(arguments) if isinstance(node, ast.Return)), None) if arguments else None
    given = returned.elts if isinstance(returned, (ast.List, ast.Tuple)) else []
    names = [one.arg for one in making[0][1].args.args[1:]]
    unknown: dict[str, ast.expr] = {name: ast.Name(id="") for name in names}
    return {**unknown, **dict(zip(names, given, strict=False))}
