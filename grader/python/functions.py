"""Python functions as what the grader takes: the source of a kernel, and a native problem of a reference with example inputs.

Neither torch nor numpy is imported: a tensor is what has a shape and a dtype.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import inspect
import json
import os
import shutil
import symtable
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.cli.exits import UsageError
from grader.model import problem_id_of
from grader.python.results import unscored

Inputs = Sequence[Any] | Mapping[str, Any]

_SCALARS = {bool: "bool", int: "int64", float: "float32"}
_HALF_TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}


def kernel_source(kernel: Callable[..., Any]) -> str:
    """Return the text of a function's module; of one that is a script or a notebook, what the function uses of it. UsageError."""
    _text(kernel)
    module = sys.modules.get(_plain(kernel).__module__)
    is_file = module is not None and module.__name__ != "__main__" and getattr(module, "__file__", None)
    return inspect.getsource(module) if module and is_file else function_source(kernel)


def function_source(function: Callable[..., Any]) -> str:
    """Return a module that defines a function, and what it uses: modules, constants, and functions of its own module. UsageError."""
    values, texts = dict[str, Any](), ["from __future__ import annotations"]
    _collect(function, values, texts)
    return "\n\n".join(texts) + "\n"


def _plain(function: Any) -> Any:
    """Return what Triton's, Numba's or another decorator wraps."""
    return inspect.unwrap(getattr(function, "fn", None) or getattr(function, "py_func", None) or function)


def _text(function: Any) -> str:
    plain = _plain(function)
    name = getattr(plain, "__name__", repr(plain))
    try:
        text = textwrap.dedent(inspect.getsource(plain))
    except (OSError, TypeError):
        raise UsageError(f"sources: {name} has no source in Python; write it as a function in a file or a notebook") from None
    if name == "<lambda>" or inspect.ismethod(plain) or (plain is not function and not text.startswith("@")):
        kind = "a lambda" if name == "<lambda>" else "a method" if plain is function else "wrapped where its source does not say so"
        raise UsageError(f"sources: {name} is {kind}; write a function with def, and decorators above it")
    return text.rstrip()


def _collect(function: Any, values: dict[str, Any], texts: list[str]) -> None:
    plain, text = _plain(function), _text(function)
    values[plain.__name__] = function
    nonlocals = inspect.getclosurevars(plain).nonlocals if inspect.isfunction(plain) else {}
    names = {**(getattr(plain, "__globals__", None) or vars(sys.modules[plain.__module__])), **nonlocals}
    for name in sorted({*_free_names(symtable.symtable(text, plain.__name__, "exec"))} & {*names}):
        if name not in values:
            values[name] = names[name]
            _bind(name, plain, values, texts)
        elif values[name] is not names[name] and not (_is_constant(values[name]) and repr(values[name]) == repr(names[name])):
            raise UsageError(f"sources: {plain.__name__} and what it uses have two things that are called {name!r}; rename one")
    texts.append(text)  # behind what it uses


def _free_names(table: symtable.SymbolTable) -> Iterator[str]:
    outside = table.get_type() == "module"
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() or (outside and symbol.is_referenced()))
    for child in table.get_children():
        yield from _free_names(child)


def _bind(name: str, user: Any, values: dict[str, Any], texts: list[str]) -> None:
    value, plain = values[name], _plain(values[name])
    module = getattr(plain, "__module__", None) or ""
    if isinstance(value, ModuleType):
        texts.append(f"import {value.__name__} as {name}")
    elif _is_constant(value):
        texts.append(f"{name} = {value!r}")
    elif str(value).startswith("torch.") and type(value).__module__ == "torch":  # a dtype
        texts.append(f"import torch\n{name} = {value}")
    elif module != user.__module__ and getattr(sys.modules.get(module), getattr(plain, "__name__", ""), None) is value:
        texts.append(f"from {module} import {plain.__name__} as {name}")
    elif name == getattr(plain, "__name__", "") and (inspect.isfunction(plain) or inspect.isclass(plain)):
        _collect(value, values, texts)
    else:
        text = f"{user.__name__} uses {name!r}, which is of type {type(value).__name__} and can't be sent"
        raise UsageError(f"sources: {text}; pass it as an argument, make it a number or a text, or a function of that name")


def _is_constant(value: object) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or (type(value) in (bool, int, float, str) and repr(value) not in ("inf", "-inf", "nan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionProblem:
    """Problem of a PyTorch function: the files of a native problem. It is the path of their directory, too, which ends with the process."""

    name: str
    toml: str
    reference: str

    @classmethod
    def from_function(
        cls,
        reference: Callable[..., Any],
        inputs: Inputs,
        *,
        more_inputs: Sequence[Inputs] = (),
        tolerance: Mapping[str, float | bool] | None = None,
    ) -> FunctionProblem:
        """Make a problem of a function that computes the right answer, and of its example inputs: tensors, and numbers by value.

        Shapes, dtypes, numbers and the range of integers are those of the examples; the values are drawn anew for every run. Each of
        more_inputs is a workload more, of other sizes: sizes that change together are one axis, and those that never change are fixed.
        tolerance: keys of the table in problem.toml.
        """
        with unscored():
            source = function_source(reference)
        calls = [_bound(reference, example) for example in (inputs, *more_inputs)]
        results = [reference(*call.args, **call.kwargs) for call in calls]
        answers = [result if isinstance(result, tuple) else (result,) for result in results]
        rows = [
            call.arguments | {f"result{place or ''}": value for place, value in enumerate(answer)}
            for call, answer in zip(calls, answers, strict=True)
        ]
        axes = dict[tuple[int, ...], str]()  # by their sizes in the examples

        def axis(sizes: tuple[int, ...]) -> str | int:
            fixed = len(set(sizes)) == 1 and (len(sizes) > 1 or sizes == (1,))
            return sizes[0] if fixed else axes.setdefault(sizes, f"size{len(axes)}")

        tensors = [
            {"name": name, "dtype": _dtype(name, value), "shape": [*map(axis, zip(*(_shape(row[name]) for row in rows), strict=True))]}
            for name, value in rows[0].items()
        ]
        inputs_count = len(calls[0].arguments)
        is_half = any(tensor["dtype"] in ("float16", "bfloat16") for tensor in tensors[inputs_count:])
        fields = {
            "title": reference.__name__,
            "axes": [*axes.values()],
            "inputs": tensors[:inputs_count],
            "outputs": tensors[inputs_count:],
            "tolerance": dict(_HALF_TOLERANCE if tolerance is None and is_half else tolerance or {}),
            "workloads": [
                {
                    "id": f"example{number}",
                    "axes": {name: sizes[number] for sizes, name in axes.items()},
                    "distributions": {name: drawn for name, value in call.arguments.items() if (drawn := _distribution(value))},
                }
                for number, call in enumerate(calls)
            ],
        }
        source += "" if reference.__name__ == "reference" else f"\n\nreference = {reference.__name__}\n"
        toml = "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items())
        digest = hashlib.sha256(f"{toml}\0{source}".encode()).hexdigest()[:12]
        name = f"{problem_id_of(reference.__name__)[:48]}_{digest}"
        return cls(name=name, toml=f"name = {_toml(name)}\n{toml}", reference=source)

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write it as a directory of its name in this one, such as for a server to import."""
        path = Path(directory) / self.name
        path.mkdir(parents=True, exist_ok=True)
        (path / "problem.toml").write_text(self.toml, "utf-8")
        (path / "reference.py").write_text(self.reference, "utf-8")
        return path

    def __fspath__(self) -> str:
        return str(self.save(_process_directory(os.getpid())))


def _bound(reference: Callable[..., Any], example: Inputs) -> inspect.BoundArguments:
    signature = inspect.signature(reference)
    return signature.bind(**example) if isinstance(example, Mapping) else signature.bind(*example)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(int, getattr(value, "shape", ())))


def _dtype(name: str, value: Any) -> str:
    dtype = _SCALARS.get(type(value)) or str(getattr(value, "dtype", "")).rpartition(".")[2]
    if not dtype:
        raise TypeError(f"{name} is of type {type(value).__name__}; inputs and results are tensors, arrays or numbers")
    return dtype


def _distribution(value: Any) -> dict[str, Any]:
    if not _shape(value):
        exact = value.item() if hasattr(value, "item") else value
        if isinstance(exact, int) and (abs(exact) > 1 << 63 or int(float(exact)) != exact):
            raise ValueError(f"{exact} would be sent as another number; write one that a float of 64 bits holds")
        return {"kind": "constant", "high": float(exact)}
    if "int" not in str(value.dtype):
        return {}
    if (low := float(value.min())) == (high := float(value.max())):
        raise ValueError("all integers of an example are the same, so that each would be; give their range")
    return {"kind": "integers", "low": low, "high": high}


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key if key.isascii() else _toml(key)} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)  # inf and nan are TOML's words, too


@functools.cache
def _process_directory(pid: int) -> str:
    directory = tempfile.mkdtemp(prefix="grader-problems-")

    def remove() -> None:
        if os.getpid() == pid:  # no fork
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory
