"""Which functions of a torch extension write their outputs behind their inputs: by the signatures that pybind11 and TORCH_LIBRARY give."""

from types import SimpleNamespace

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.languages.torch_extension import takes_outputs

OVERLOADED = "f(*args, **kwargs)\nOverloaded function.\n\n1. f(arg0: torch.Tensor, arg1: torch.Tensor) -> None\n"


def documented(text: str | None) -> SimpleNamespace:
    return SimpleNamespace(__doc__=text)


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("f(arg0: torch.Tensor, arg1: torch.Tensor) -> None\n", 2, True),
        ("f(x: torch.Tensor, y: torch.Tensor) -> None\n\nReLU of x, into y", 2, True),
        ("f(x: torch.Tensor, sizes: tuple[int, list[int]], y: torch.Tensor, eps: float = 1e-05) -> None\n", 4, True),
        ("f() -> None\n", 0, True),
        ("f(x: torch.Tensor, y: torch.Tensor) -> None\n", 3, False),  # it takes something else
        ("f(x: torch.Tensor) -> None\n", 2, False),
        ("f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor\n", 2, False),  # it returns its output
        ("f(x: torch.Tensor, y: torch.Tensor) -> tuple[None, None]\n", 2, False),
        (OVERLOADED, 2, False),  # which one is called would depend on the arguments
        ("says nothing of its arguments", 2, False),
        ("", 0, False),
        (None, 0, False),
    ],
)
def test_a_signature_of_pybind11(text: str | None, count: int, expected: bool) -> None:
    assert takes_outputs(documented(text), count) is expected


@pytest.mark.parametrize(
    ("arguments", "returns", "count", "expected"), [("xy", "", 2, True), ("xy", "", 3, False), ("xy", "y", 2, False), ("", "", 2, False)]
)
def test_a_schema_of_an_operator(arguments: str, returns: str, count: int, expected: bool) -> None:
    operator = SimpleNamespace(default=SimpleNamespace(_schema=SimpleNamespace(arguments=list(arguments), returns=list(returns))))
    assert takes_outputs(operator, count) is expected
