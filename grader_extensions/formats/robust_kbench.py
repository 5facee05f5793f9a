"""The robust_kbench format: a directory with func_forward.py and config_forward.json, or the same two of backward.  Parsed, never executed.

A task's file has `Model`, `get_inputs` and `forward_fn`; that of backward has `AutogradFunction`, too. A kernel stands in for forward_fn,
or for AutogradFunction's backward_fn. The workloads are the config's single settings: those that robust-kbench's own run_kernel.py tests by
default. Its multi settings are left out, for their combinations contain some that the tasks' own Models refuse. The emulated device gets a
smaller batch of what is large.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from grader.errors import ProblemInvalid
from grader.formats.inside import require_inside
from grader.model import Problem, problem_id_of
from grader_extensions.formats import problem_files
from grader_extensions.formats.problem_files import digest_of, parse_python, read_text, reported
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind

NAME = "robust_kbench"
LAYOUT = "a directory with func_forward.py and config_forward.json, or func_backward.py and config_backward.json"
LANGUAGES = ("torch_extension", "python")
DIRECTIONS = ("forward", "backward")
FUNCTIONS = ("forward_fn", "Model", "get_inputs")
FILE_LIMIT_BYTES, SETTING_LIMIT, LARGEST = 256 * 1024, 64, 2**31 - 1
TRIAL_COUNT, TRIAL_S = 5, 30.0  # the count is theirs
TITLE_LIMIT_CHARS = 120
# That of its run_kernel.py, and KernelBench's budget for outputs that are small next to atol, where zeros would pass. Its library's default
# of 1e-5 rejects PyTorch's own sums in float32, such as the gradient of a convolution's weights.
TOLERANCE = wire.Tolerance(atol=1e-3, rtol=1e-3, budget_floor=1e-2)
_STATEMENTS = {
    "forward": "Write a torch extension with m.def(\"forward\", ...), or a Python function forward, that does what forward_fn below does, "
    "faster. It is called with the arguments that Model.forward gives to fn, by position, and returns what forward_fn returns.",
    "backward": "Write a torch extension with m.def(\"backward\", ...), or a Python function backward, that computes the gradients of "
    "forward_fn below. It is called with the arguments that AutogradFunction.backward gives to backward_fn, by position, and returns the "
    "gradients that are unpacked there. PyTorch's time includes the forward pass, which autograd needs.",
}  # fmt: skip

_Scalar = bool | int | Annotated[float, Field(allow_inf_nan=False)] | Annotated[str, Field(max_length=1000)] | None
_Value = _Scalar | Annotated[list[_Scalar], Field(max_length=256)]
_Arguments = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")], _Value]
_Configs = Annotated[list[_Arguments], Field(min_length=1, max_length=SETTING_LIMIT)]
_Setting = dict[str, _Arguments]  # by "init" and "given": what Model and get_inputs are called with


class _ConfigFile(BaseModel):
    """config_forward.json, as far as it is used."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    single_input_configs: _Configs
    single_init_configs: _Configs
    single_shared_configs: _Configs

    def settings(self) -> list[_Setting]:
        """Return what Model and get_inputs are called with, in each setting; what is shared goes over both."""
        every = itertools.product(self.single_init_configs, self.single_input_configs, self.single_shared_configs)
        combinations: list[_Setting] = [{"init": {**init, **shared}, "given": {**inputs, **shared}} for init, inputs, shared in every]
        return [setting for index, setting in enumerate(combinations) if setting not in combinations[:index]]


def matches(path: Path) -> bool:
    """Return whether a problem of this format lies at path: a func_*.py with its config next to it."""
    direction = _direction(path)
    return direction is not None and path.is_file() and path.with_name(f"config_{direction}.json").is_file()


def members(path: Path) -> tuple[Path, ...]:
    """The problems of the task in directory path, forward first."""
    return tuple(file for direction in DIRECTIONS if matches(file := path / f"func_{direction}.py"))


def unusable(problem: Problem) -> str:
    """Why no judge here can run the task: a package that it imports is missing; "" where none is."""
    return problem_files.unusable({"task": problem.spec.reference}, "task", FUNCTIONS)


def warnings(problem: Problem) -> tuple[str, ...]:
    """Return what to tell those who import it about the sizes that only a GPU runs."""
    kinds = {workload.device_kind for workload in problem.spec.workloads}
    if DeviceKind.EMULATED in kinds:
        return ("the emulated device gets a smaller batch than the config's",)
    return problem_files.warnings(problem) if DeviceKind.CUDA in kinds else ()


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem in the file path. root: the set, outside of which no file is read; None: the file's directory."""
    direction = _direction(path)
    if direction is None:
        raise ProblemInvalid(str(path), f"is not a problem of this format; name func_forward.py or func_backward.py in {LAYOUT}")
    config_path = path.with_name(f"config_{direction}.json")
    for file in (path, config_path):
        require_inside(file, root or path.parent, path)
    source = read_text(path, FILE_LIMIT_BYTES, LAYOUT)
    tree = parse_python(path, source, path.name)
    defined = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    needed = (*FUNCTIONS, *(("AutogradFunction",) if direction == "backward" else ()))
    if missing := [name for name in needed if name not in defined]:
        raise ProblemInvalid(str(path), f"has no {missing[0]}; define it at the top level")
    model, inputs = defined["Model"], defined["get_inputs"]
    making = next((node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    signatures = {
        "Model": _Signature.of(making, skipped=1),
        "get_inputs": _Signature.of(inputs if isinstance(inputs, ast.FunctionDef) else None, skipped=0),
    }
    config = read_text(config_path, FILE_LIMIT_BYTES, LAYOUT)
    with reported(config_path, config, model=_ConfigFile):
        settings = _ConfigFile.model_validate(json.loads(config)).settings()
    if len(settings) > SETTING_LIMIT:
        raise ProblemInvalid(str(config_path), f"its single settings make {len(settings)} combinations; keep at most {SETTING_LIMIT}")
    for setting in settings:
        _check_arguments(config_path, setting, signatures)
    workloads = tuple(_workloads(settings, signatures, direction))
    directory = path.resolve().parent
    # Of level_1/task_7, whose name says nothing alone, level_1_task_7.
    name = f"{directory.parent.name}_{directory.name}" if re.fullmatch(r"task_\d+", directory.name) else directory.name
    problem_id = problem_id_of(name if direction == "forward" else f"{name}_{direction}")
    return Problem(
        problem_id=problem_id,
        title=_title(path, tree, direction),
        languages=LANGUAGES,
        spec=_spec(problem_id, source, workloads, direction),
        statement=f"{_STATEMENTS[direction]}\n\n{source}",
    )


def _direction(path: Path) -> str | None:
    return next((direction for direction in DIRECTIONS if path.name == f"func_{direction}.py"), None)


def _title(path: Path, tree: ast.Module, direction: str) -> str:
    name = f"{path.resolve().parent.name}{' (backward)' if direction == 'backward' else ''}"
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "forward_fn"), None)
    lines = (ast.get_docstring(function) or "").strip().splitlines() if function else []
    return f"{name}: {' '.join(lines[0].split())}"[:TITLE_LIMIT_CHARS] if lines else name[:TITLE_LIMIT_CHARS]


def _spec(problem_id: str, source: str, workloads: tuple[wire.Workload, ...], direction: str) -> wire.ProblemSpec:
    canonical = {
        "format": NAME,
        "id": problem_id,
        "reference": source,
        "workloads": [[workload.workload_id, workload.arguments, workload.device_kind] for workload in workloads],
        "direction": direction,
        "tolerance": {key: value for key, value in asdict(TOLERANCE).items() if value is not False},
        "trials": TRIAL_COUNT,
    }
    return wire.ProblemSpec(
        problem_id=problem_id,
        format=NAME,
        entry=direction,
        inputs=(),
        outputs=(),
        workloads=workloads,
        tolerance=TOLERANCE,
        reference=source,
        axes=problem_files.shared_axes(workloads),
        trial_count=TRIAL_COUNT,
        trial_s=TRIAL_S,
        digest=digest_of(canonical),
        convention=wire.Convention.ARGUMENTS,
    )


def _workloads(settings: list[_Setting], signatures: dict[str, _Signature], direction: str) -> Iterator[wire.Workload]:
    """Yield a workload for each setting; of a large one, one for a GPU and another with a smaller batch for the emulated device."""
    smaller: list[_Setting] = []
    for index, setting in enumerate(settings):
        name, small = f"setting-{index}", _smaller(setting, signatures)
        weight_elements = math.prod(sorted(signatures["Model"].sizes(small["init"]))[-2:])  # about those of a matrix of the two largest
        possible = _input_elements(small, signatures) + weight_elements <= problem_files.LARGEST
        if small == setting:
            yield _workload(name, setting, direction, "" if possible else DeviceKind.CUDA)
            continue
        yield _workload(name, setting, direction, DeviceKind.CUDA)
        if possible and small not in smaller:
            smaller.append(small)
            yield _workload(f"{name}-small", small, direction, DeviceKind.EMULATED)


def _workload(workload_id: str, setting: _Setting, direction: str, device_kind: str) -> wire.Workload:
    values = {**setting["init"], **setting["given"]}
    axes = {key: value for key, value in values.items() if type(value) is int and 0 <= value <= LARGEST}
    arguments = json.dumps({**setting, "backward": direction == "backward"}, sort_keys=True)
    return wire.Workload(workload_id=workload_id, axes=axes, arguments=arguments, device_kind=device_kind)


def _input_elements(setting: _Setting, signatures: dict[str, _Signature]) -> int:
    """About how many elements the inputs have: the product of all sizes that they are made of."""
    return math.prod(signatures["get_inputs"].sizes(setting["given"]))


def _smaller(setting: _Setting, signatures: dict[str, _Signature]) -> _Setting:
    """With a smaller batch: first batch_size, then what else only the inputs have, is halved while the inputs are too large."""
    arguments = dict(setting["given"])
    for key in sorted((key for key in arguments if key not in setting["init"]), key=lambda key: key != "batch_size"):
        while type(value := arguments[key]) is int and value > 1:
            if _input_elements({**setting, "given": arguments}, signatures) <= problem_files.SMALL:
                break
            arguments[key] = value // 2
    return {**setting, "given": arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signature:
    """Parameters of a function of a task by name, with their defaults; None: required. takes_any: it takes other names as well."""

    parameters: dict[str, ast.expr | None]
    takes_any: bool

    @classmethod
    def of(cls, function: ast.FunctionDef | None, *, skipped: int) -> _Signature:
        """Of this function without its first parameters; None: of one that takes nothing."""
        if function is None:
            return cls(parameters={}, takes_any=False)
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        required = [None] * (len(positional) - len(arguments.defaults))
        names = [parameter.arg for parameter in (*positional, *arguments.kwonlyargs)]
        parameters = list(zip(names, (*required, *arguments.defaults, *arguments.kw_defaults), strict=True))
        return cls(parameters=dict(parameters[skipped:]), takes_any=arguments.kwarg is not None)

    def sizes(self, arguments: _Arguments) -> list[int]:
        """The whole numbers over zero in a call, defaults among them."""
        defaults = {name: node.value for name, node in self.parameters.items() if isinstance(node, ast.Constant)}
        return [value for value in {**defaults, **arguments}.values() if type(value) is int and value > 0]


def _check_arguments(path: Path, setting: _Setting, signatures: dict[str, _Signature]) -> None:
    for name, of, config in (("Model", "init", "single_init_configs"), ("get_inputs", "given", "single_input_configs")):
        parameters = signatures[name].parameters
        if unknown := [key for key in setting[of] if key not in parameters and not signatures[name].takes_any]:
            text = f"{config}: gives {name} {unknown[0]!r}, which it does not take; leave it out there and in single_shared_configs"
            raise ProblemInvalid(str(path), text)
        if missing := sorted(key for key, default in parameters.items() if default is None and key not in setting[of]):
            raise ProblemInvalid(str(path), f"{config}: does not give {name} {missing[0]!r}, which it needs; add it")
