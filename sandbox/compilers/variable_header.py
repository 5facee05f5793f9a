"""Takes over, word for word, what torch says of its own types in Python: its casters, and the exceptions that it translates.

The light headers bind functions without pybind11, but what a tensor, a size or a device is in Python stays torch's to say: the casters are
exported by its libraries, and only their declarations are needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

TENSOR = "struct TORCH_PYTHON_API type_caster<at::Tensor> {"
CASTERS = (
    TENSOR,
    "struct TORCH_PYTHON_API type_caster<at::IntArrayRef> {",
    "struct TORCH_PYTHON_API type_caster<c10::Scalar> {",
    "struct type_caster<at::Device> {",
    "struct type_caster<at::ScalarType> {",
)
PYTHON_ERROR = "struct python_error : public std::exception {"
TRANSLATE = "TORCH_PYTHON_API void translate_exception_to_python("
EXCEPTIONS = (
    "struct PyTorchError : public std::exception {",
    "struct TypeError : public PyTorchError {",
    "struct AttributeError : public PyTorchError {",
)
# What a signature calls an integer and a float, as argument and as result: changes between versions of pybind11 3, which alone is followed.
NUMBERS = re.compile(r'io_name<std::is_integral<T>::value>\(\s*"([^"@]*)",\s*"([^"@]*)",\s*"([^"@]*)",\s*"([^"@]*)"\)')
INCLUDES = """\
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Export.h>
"""


def variable_header(torch_include: Path) -> str | None:
    """The text of `grader/variable.h` for the torch installed there; None where its headers have another shape."""
    casters = _lines(torch_include / "torch/csrc/utils/pybind.h")
    exceptions = _lines(torch_include / "torch/csrc/Exceptions.h")
    tensor, error, translate = _block(casters, TENSOR), _block(exceptions, PYTHON_ERROR), _declaration(exceptions, TRANSLATE)
    thrown = [_block(exceptions, start) for start in EXCEPTIONS]
    numbers = NUMBERS.search("\n".join(_lines(torch_include / "pybind11/cast.h")))
    # A caster with a body would need more than its declaration.
    if not any("bool load(handle src, bool" in line and line.endswith(";") for line in tensor):
        return None
    if not error or not translate or not all(thrown) or numbers is None:
        return None
    integer, integer_result, real, real_result = numbers.groups()
    names = [f'#define GRADER_INTEGER_NAME "@{integer}@{integer_result}@"', f'#define GRADER_FLOAT_NAME "@{real}@{real_result}@"']
    lines = ["#pragma once", INCLUDES, *names, *error, "namespace torch {", *translate]
    for block in thrown:
        lines += block
    lines += ["}", "namespace pybind11::detail {"]
    for start in CASTERS:
        block = _block(casters, start)
        lines += ["template <>", *block] if block else []
    return "\n".join([*lines, "}", ""])


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n") if path.exists() else []


def _block(lines: Sequence[str], start: str) -> list[str]:
    """A struct, from its first line to the brace at the left margin; empty: there is none."""
    if start not in lines:
        return []
    first = lines.index(start)
    return [line for line in lines[first : lines.index("};", first) + 1] if not line.lstrip().startswith("//")]


def _declaration(lines: Sequence[str], start: str) -> list[str]:
    """A declaration of some lines, from the first one to its semicolon; empty: there is none."""
    for first, line in enumerate(lines):
        if line.startswith(start):
            last = next(at for at in range(first, len(lines)) if lines[at].endswith(";"))
            return list(lines[first : last + 1])
    return []
