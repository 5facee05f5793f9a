"""Counts how many problems of a set for other graders, and of their starter files, a problem of ours takes as they are.

`python -m tools.field DIRECTORY` reads a checkout of LeetGPU's challenges (`challenge.py` next to `starter/`) or of Tensara's problems
(`def.py`). Nothing of the set is executed. Each signature becomes a native problem file: numbers are axes or floats by value. The grader's
own code loads it and says what a CUDA or a Python entry is called with. A miss is printed with its cause; the last lines have the counts.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.errors import ProblemInvalid
from grader.formats import native
from sandbox.compilers import entry_signature
from sandbox.languages import python
from sandbox.launch.loop import LaunchRefused
from sandbox.protocol import wire

# By the bytes: a tensor has no unsigned type beyond uint8, and ctypes has no half precision.
_DTYPES = {
    "float32": "float torch.Tensor",
    "float64": "double",
    "float16": "half float16 uint16",
    "int32": "int int32 uint uint32 int32_t uint32_t",
    "int64": "long longlong int64 size_t int64_t uint64_t",
    "int8": "char byte int8 int8_t",
    "uint8": "ubyte uint8 uint8_t",
    "float8_e4m3fn": "float8",
}
_DTYPE_OF = {name: dtype for dtype, names in _DTYPES.items() for name in names.split()}
_C_TYPES = {"float16": "__half", "float8": "uint8_t"}  # where the set's name is none of C++
_STARTERS = {"cuda": "starter.cu", "triton": "starter.triton.py", "pytorch": "starter.pytorch.py"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """Argument of a set's signature. role: in, out or inout; type: as the set writes it."""

    name: str
    type: str
    role: str
    is_tensor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Signature of an entry, and the files, by kind, whose entry is to have it."""

    problem: str
    entry: str
    arguments: tuple[Argument, ...]
    starters: dict[str, str]


def signatures(directory: Path) -> Iterator[Signature]:
    """Yield the signatures of a set."""
    for path in sorted(directory.rglob("challenge.py")):
        starters = {kind: path.parent / "starter" / name for kind, name in _STARTERS.items()}
        texts = {kind: starter.read_text("utf-8") for kind, starter in starters.items() if starter.is_file()}
        if texts:
            yield Signature(problem=path.parent.name, entry="solve", arguments=(*_leetgpu(path),), starters=texts)
    for path in sorted(directory.rglob("def.py")):
        if arguments := (*_tensara(path),):
            entries = {
                "cuda": f'extern "C" void solution({", ".join(map(_c_parameter, arguments))}) {{}}',
                "python": f"def solution({', '.join(argument.name for argument in arguments)}): pass",
            }
            yield Signature(problem=path.parent.name, entry="solution", arguments=arguments, starters=entries)


def _leetgpu(path: Path) -> Iterator[Argument]:
    """Read the dictionary that get_solve_signature returns: `"N": (ctypes.c_int, "in")`."""
    tree = ast.parse(path.read_text("utf-8"))
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "get_solve_signature")
    table = next(node.value for node in ast.walk(function) if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict))
    for key, value in zip(table.keys, table.values, strict=True):
        written, role = value.elts  # type: ignore[attr-defined]
        text = ast.unparse(written)
        is_tensor = "POINTER" in text or "Tensor" in text
        type_name = re.sub(r"ctypes\.(c_)?|POINTER\(|\)", "", text)
        yield Argument(name=ast.literal_eval(key), type=type_name, role=ast.literal_eval(role), is_tensor=is_tensor)


def _tensara(path: Path) -> Iterator[Argument]:
    """Read the list `parameters`, which drafts have not; a pointer that is not to const is an output."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "parameters":
            for row in ast.literal_eval(node.value):
                is_output = row["pointer"] and not row["const"]
                yield Argument(name=row["name"], type=row["type"], role="out" if is_output else "in", is_tensor=row["pointer"])


def _c_parameter(argument: Argument) -> str:
    const, pointer = ("const " if argument.role == "in" else "", "*") if argument.is_tensor else ("", "")
    return f"{const}{_C_TYPES.get(argument.type, argument.type)}{pointer} {argument.name}"


def problem_text(signature: Signature) -> str:
    """Return a native problem file with this signature. Tensors have one element, since a signature says nothing of sizes."""
    tables: dict[str, list[str]] = {"inputs": [], "outputs": []}
    axes = []
    for argument in signature.arguments:
        dtype = _DTYPE_OF.get(argument.type, argument.type)
        if not argument.is_tensor and dtype in ("int64", "int32"):
            axes.append(argument.name)
            continue
        role = ', role = "inout"' if argument.role == "inout" else ""
        table = f'{{ name = "{argument.name}", dtype = "{dtype}", shape = {[1] if argument.is_tensor else []}{role} }}'
        tables["outputs" if argument.role == "out" else "inputs"].append(table)
    sizes = ", ".join(f"{axis} = 1" for axis in axes)
    return "\n".join((
        f'name = "field"\ntitle = "{signature.problem}"\nentry = "{signature.entry}"\naxes = {axes}',
        *(f"{key} = [{', '.join(tables[key])}]" for key in tables if tables[key]),
        f'workloads = [{{ id = "w", axes = {{ {sizes} }} }}]',
    ))  # fmt: skip


def miss(signature: Signature, kind: str, spec: wire.ProblemSpec) -> str:
    """Return why the starter of this kind can't be taken unchanged; "" where each parameter is given its argument."""
    outputs = tuple(tensor for tensor in spec.outputs if tensor.name not in {item.name for item in spec.inputs})
    names = [*(tensor.name for tensor in (*spec.inputs, *outputs)), *spec.axes]
    text, order = signature.starters[kind], tuple(range(len(names)))
    if kind == "cuda":
        call = wire.EntryCall(inputs=spec.inputs, outputs=outputs, axes=spec.axes)
        build_note = entry_signature.note(signature.entry, call, {"starter.cu": text})
        if build_note.mismatch:
            return build_note.mismatch
        if not entry_signature.note(signature.entry, wire.EntryCall(inputs=spec.inputs * 40, outputs=outputs), {"": text}).mismatch:
            return "its entry can't be read"
        order = build_note.argument_order or order
    else:
        job = wire.RunnerJob(
            device_kind="emulated", language="python", entry=signature.entry, arena_bytes=0,
            inputs=spec.inputs, outputs=outputs, axes=spec.axes,
        )  # fmt: skip
        try:
            order = python.argument_order(_without_body(text, signature.entry), job)
        except LaunchRefused as refused:
            return str(refused)
        order = order or tuple(range(len(spec.inputs)))
    passed, wanted = [names[place] for place in order], [argument.name for argument in signature.arguments]
    return "" if passed == wanted else f"it is called with {', '.join(passed)}; the set calls it with {', '.join(wanted)}"


def _without_body(text: str, entry: str) -> python.Kernel:
    """A function with the parameters of the entry alone: the file's own code is not executed."""
    function = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == entry)
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    space: dict[str, python.Kernel] = {}
    exec(f"def {entry}({', '.join(names)}): pass", space)
    return space[entry]


def count(directory: Path) -> tuple[Counter[str], list[str]]:
    """Count the starters that are taken and those that there are, by kind, and list the misses."""
    counts, misses = Counter[str](), list[str]()
    for signature in signatures(directory):
        with tempfile.TemporaryDirectory() as place:
            Path(place, "problem.toml").write_text(problem_text(signature), "utf-8")
            Path(place, "reference.py").write_text("def reference(*inputs):\n    return inputs[0]\n", "utf-8")
            try:
                spec, refusal = native.load(Path(place)).spec, ""
            except ProblemInvalid as invalid:
                spec, refusal = None, str(invalid).replace(place, "")
        for kind in signature.starters:
            cause = refusal if spec is None else miss(signature, kind, spec)
            counts.update({f"{kind} in all": 1, f"{kind} taken unchanged": not cause})
            misses += [f"{signature.problem}, {kind}: {cause}"] if cause else []
    return counts, misses


def main() -> int:
    """Print the misses and the counts of the directory on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    counts, misses = count(parser.parse_args().directory)
    sys.stdout.write("".join(f"{line}\n" for line in (*misses, *(f"{name}: {number}" for name, number in sorted(counts.items())))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
