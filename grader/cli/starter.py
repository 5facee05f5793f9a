"""`grader-cli init`: writes a file to begin with, which has a problem's signature and nothing in it yet."""

from __future__ import annotations

import keyword
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader.api.resource_names import PROBLEMS, full_name, resource_id
from grader.cli.exits import Exit, Misuse
from grader.cli.options import Server, StateDir
from grader.cli.problems import torch_example
from grader.cli.progress import stderr_console
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.suggestions import did_you_mean
from grader.cli.text import escape_unprintable, one_line, plain
from grader.cli.written_files import STDOUT
from grader.v1 import problem_pb2
from grader.views.starter_files import C_HEADERS, TORCH_DTYPES
from sandbox.protocol.signatures import CUDA, PYTHON, TORCH_EXTENSION

_ENDINGS = {CUDA: ".cu", TORCH_EXTENSION: ".cu", PYTHON: ".py"}
_MADE = " on the inputs' device, launch your kernels, and write every element"  # in the example, where the outputs are not made


def init_command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="problems/ID, or just ID.")],
    language: Annotated[
        str, typer.Option(help="cuda, torch_extension or python. Default: the first of these that the problem takes.", show_default=False)
    ] = "",
    out: Annotated[
        str,
        typer.Option(metavar="FILE", help="The file to write, or '-' for stdout. Default: PROBLEM.cu or PROBLEM.py.", show_default=False),
    ] = "",
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Write a file to begin with: the problem's signature in a language, without a kernel. Nothing is overwritten."""
    run(init(Target(server=server, state_dir=state_dir), problem, language, out))


async def init(target: Target, name: str, language: str, out: str) -> Exit:
    """Write the file of a problem."""
    async with connect(target, Need.READ) as client:
        problem = await client.get_problem(full_name(PROBLEMS, name))
    language = language or next(iter(languages(problem)), PYTHON)
    text = starter(problem, language)
    path = out or f"{resource_id(PROBLEMS, problem.name)}{_ENDINGS[language]}"
    if path == STDOUT:
        print(escape_unprintable(text), end="")
        return Exit.DONE
    if not out and os.sep in path:  # a server could name a problem so
        raise Misuse(f"{path!r} is not a file name; name the file with --out")
    _write_new(path, text)
    stderr_console().print(plain(f"wrote {path}; then: grader-cli submit {path}"), soft_wrap=True)
    return Exit.DONE


def _write_new(path: str, text: str) -> None:
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Misuse(f"{path!r} is there already; remove it, or name another file with --out") from None
    except OSError as error:
        raise Misuse(f"{path!r} can't be written: {error.strerror}; name another file with --out") from None


def languages(problem: problem_pb2.Problem) -> list[str]:
    """The languages that there is a starter in, for this problem."""
    known = {CUDA: bool(problem.cuda_signature), TORCH_EXTENSION: bool(problem.cuda_signature), PYTHON: True}
    return [one for one, is_known in known.items() if is_known and one in problem.languages]


def starter(problem: problem_pb2.Problem, language: str) -> str:
    """The text of the file. Misuse where the problem does not take the language, or its signature in it is not known."""
    known = languages(problem)
    problem_id = resource_id(PROBLEMS, problem.name)
    if language not in known:
        text = f"--language: {language!r} is not one that {problem_id} can be begun in; take one of: {', '.join(known) or 'none'}."
        raise Misuse(text + did_you_mean(language, known))
    match language:
        case "cuda":
            return _cuda(problem)
        case "torch_extension":
            return _torch(problem)
    return _python(problem)


def _cuda(problem: problem_pb2.Problem) -> str:
    dtypes = {one.dtype for one in (*problem.inputs, *problem.outputs)}
    headers = ["cstdint", "cuda_runtime.h", *(header for dtype, header in C_HEADERS.items() if dtype in dtypes)]
    lines = [
        *_head(problem, "//"),
        *(f"#include <{one}>" for one in headers),
        "",
        f"{one_line(problem.cuda_signature, most_chars=10_000)} {{",
        f"    // Launch your kernels on `stream`, and write every element of {_names(problem.outputs)}.",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _torch(problem: problem_pb2.Problem) -> str:
    """The example of `problems show`, with the outputs made where their sizes are known from the inputs."""
    text = torch_example(problem)
    shapes = _output_shapes(problem, "{tensor}.size({place})")
    first = next((one.name for one in problem.inputs if one.shape), "")
    if not shapes or not first or any(one.dtype not in TORCH_DTYPES for one in problem.outputs):
        return text
    made = [
        f"    auto {one.name} = torch::empty({{{', '.join(shape)}}}, {first}.options().dtype(torch::{TORCH_DTYPES[one.dtype]}));\n"
        for one, shape in zip(problem.outputs, shapes, strict=True)
    ]
    return text.replace("    // Make ", "".join(made) + "    // Launch your kernels, and write every element of ", 1).replace(_MADE, "", 1)


def _python(problem: problem_pb2.Problem) -> str:
    lines = [*_head(problem, "#"), "import torch", "", ""]
    match problem.format:
        case "kernelbench" | "robust_kbench" if not problem.inputs or problem.entry[:1].isupper():
            lines += [
                f"class {_identifier(problem.entry)}(torch.nn.Module):",
                "    def __init__(self, *args):  # the same arguments as the problem's Model",
                "        super().__init__()",
                "",
                "    def forward(self, *inputs):",
                "        raise NotImplementedError",
            ]
        case "reference_kernels":
            lines += [f"def {_identifier(problem.entry)}(data):", "    raise NotImplementedError"]
        case _:
            arguments = ", ".join(_identifier(one.name) for one in problem.inputs)
            lines += [f"def {_identifier(problem.entry)}({arguments}):", *_outputs(problem)]
    return "\n".join(lines) + "\n"


def _outputs(problem: problem_pb2.Problem) -> list[str]:
    """Lines that make each output, where its sizes are known from the inputs, and return them."""
    device = next((f"{_identifier(one.name)}.device" for one in problem.inputs if one.shape), '"cuda"')
    shapes = _output_shapes(problem, "{tensor}.shape[{place}]")
    if not shapes:
        return ["    raise NotImplementedError"]
    made = [
        f"    {_identifier(one.name)} = torch.empty(({_sizes(shape)}), dtype=torch.{_identifier(one.dtype)}, device={device})"
        for one, shape in zip(problem.outputs, shapes, strict=True)
    ]
    returned = ", ".join(_identifier(one.name) for one in problem.outputs)
    return [*made, f"    # Launch your kernels, and write every element of {_names(problem.outputs)}.", f"    return {returned}"]


def _output_shapes(problem: problem_pb2.Problem, pattern: str) -> list[list[str]]:
    """The sizes of each output, as code that asks an input for them; [] where no input has one of them."""
    sizes: dict[str, str] = {}
    for tensor in problem.inputs:
        for place, size in enumerate(tensor.shape):
            sizes.setdefault(size, pattern.format(tensor=_identifier(tensor.name), place=place))
    shapes = [[size if size.isdigit() else sizes.get(size, "") for size in one.shape] for one in problem.outputs]
    return shapes if all(all(shape) for shape in shapes) else []


def _sizes(shape: Sequence[str]) -> str:
    return ", ".join(shape) + ("," if len(shape) == 1 else "")


def _head(problem: problem_pb2.Problem, mark: str) -> list[str]:
    tensors = [(role, one) for role, several in (("input", problem.inputs), ("output", problem.outputs)) for one in several]
    return [
        f"{mark} grader: problem={one_line(resource_id(PROBLEMS, problem.name))}",
        f"{mark} {one_line(problem.title)}",
        *(f"{mark} {role} {one_line(one.name)}: {one_line(one.dtype)}, {_shape(one)}" for role, one in tensors),
    ]


def _shape(tensor: problem_pb2.Tensor) -> str:
    return one_line(" x ".join(tensor.shape)) if tensor.shape else "by value"


def _names(tensors: Sequence[problem_pb2.Tensor]) -> str:
    return one_line(" and ".join(one.name for one in tensors)) or "the output"


def _identifier(name: str) -> str:
    """The name, where Python can have it: what a server sends is no code."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else "unnamed"
