"""The flashinfer format: a definition with its workloads, as FlashInfer-Trace lays them out, and the superset that SOL-ExecBench uses.

A directory with definition.json and workload.jsonl is SOL's, and compared by SOL's rule; definitions/OP/NAME.json with
workloads/OP/NAME.jsonl next to it is FlashInfer's, and compared by that. Nothing is executed. A submission may return its outputs or take
them behind its inputs: the number of parameters of its entry decides (`with_destination`).
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grader.errors import ProblemInvalid
from grader.formats import flashinfer_schema as schema
from grader.formats import safetensors
from grader.formats.arithmetic import ExpressionInvalid
from grader.formats.inside import require_inside
from grader.formats.validation_messages import describe
from grader.model import NewSubmission, Problem
from sandbox.protocol import wire
from sandbox.protocol.languages import languages

NAME = "flashinfer"
DEFINITION, WORKLOADS = "definition.json", "workload.jsonl"
DEFINITIONS = "definitions"
BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}  # the others have one
FILE_LIMIT_BYTES, ROW_LIMIT, WORKLOAD_LIMIT_BYTES = 4 << 20, 1000, 1 << 38
AXIS_LIMIT = 16
MATCHED_RATIO = {"moe": 0.95, "lowbit": 0.95}  # by op_type: FlashInfer's eval_config.yaml
ATOL = RTOL = 1e-2
ID_LIMIT_CHARS = 200  # an imported problem is kept in a file of its id
PARSED_LIMIT_BYTES = 256 * 1024  # of a submission: Python takes a GB of memory and 4 s for a MiB that is made for it
KINDS = ("const", "var", "expr", "random", "scalar", "safetensors", "custom")  # no keys, but pydantic names them too
ENTRIES = (schema.RUN, "solution", "custom_kernel")


@dataclass(frozen=True, slots=True, kw_only=True)
class _DefinitionFiles:
    definition: Path
    workloads: Path
    root: Path  # what paths of safetensors are relative to
    sol: bool
    root_of_set: Path  # outside of which nothing is read


def matches(path: Path) -> bool:
    """Whether a problem of this format lies at path: a directory of SOL's, or a definition of a trace set."""
    return _files(path) is not None


def members(path: Path) -> tuple[Path, ...]:
    """The definitions of the trace set at path; () where it is none."""
    return tuple(sorted(path.glob(f"{DEFINITIONS}/*/*.json"))) if (path / DEFINITIONS).is_dir() else ()


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem at path. root: the set, if it is larger than the directory that the format itself has for one."""
    files = _files(path)
    if files is None:
        raise ProblemInvalid(str(path), f"holds no {DEFINITION}, and is no definition below {DEFINITIONS}/; name one of these")
    if root is not None and files.root.resolve().is_relative_to(root.resolve()):
        files = dataclasses.replace(files, root_of_set=root)
    for one in (files.definition, files.workloads):
        require_inside(one, files.root_of_set, files.definition)
    definition = _definition(files)
    workloads = tuple(_workloads(files, definition))
    if not workloads:
        raise ProblemInvalid(str(files.workloads), "has no workload; add a line")
    problem_id = re.sub(r"[^a-z0-9]+", "_", definition.name.lower()).strip("_")[:ID_LIMIT_CHARS] or "problem"
    spec = _spec(problem_id, definition, workloads)
    others = [one for one in languages() if one != "python"] if spec.axes and _is_plain(definition) else []
    return Problem(
        problem_id=problem_id, title=definition.name, languages=("python", *others), spec=spec, statement=definition.description or ""
    )


def with_calling_convention(spec: wire.ProblemSpec, new: NewSubmission) -> wire.ProblemSpec:
    """The spec as a submission's entry takes it; see `with_destination`."""
    if new.language != "python":
        return spec
    entry, texts = new.entry or spec.entry, [one.content for one in new.sources if one.path.endswith(".py")]
    main = next((text for text in texts if _entry(text, entry) is not None), "")  # the first file with an entry is the main file
    return with_destination(spec, main, entry)


def with_destination(spec: wire.ProblemSpec, source: str, entry: str) -> wire.ProblemSpec:
    """The spec for a Python source: an entry with as many parameters as there are inputs and outputs writes its outputs into the last.
    Where it can't be told from the source, as of `def run(*arguments)` or of a very long one, the outputs are returned."""
    function = _entry(source, entry)
    if function is None or function.args.vararg is not None:
        return spec
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    returned, all_of = len(spec.inputs), len(spec.inputs) + len(spec.outputs)
    needed = len(names) - len(function.args.defaults)
    named = names[returned:all_of] == [one.name for one in spec.outputs]
    if needed <= all_of <= len(names) and (needed > returned or named):
        return dataclasses.replace(spec, convention=wire.Convention.DESTINATION)
    return spec


def _entry(source: str, entry: str) -> ast.FunctionDef | None:
    if len(source.encode()) > PARSED_LIMIT_BYTES:
        return None
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the build reports it
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    found = next((functions[name] for name in (entry, *ENTRIES) if name in functions), None)
    return found or (next(iter(functions.values())) if len(functions) == 1 else None)


def _files(path: Path) -> _DefinitionFiles | None:
    directory = path.parent if path.name == DEFINITION else path
    if (directory / DEFINITION).is_file():
        return _DefinitionFiles(
            definition=directory / DEFINITION, workloads=directory / WORKLOADS, root=directory, sol=True, root_of_set=directory
        )
    if path.suffix != ".json" or path.parent.parent.name != DEFINITIONS or not path.is_file():
        return None
    root = path.parent.parent.parent
    workloads = root / "workloads" / path.parent.name / f"{path.stem}.jsonl"
    return _DefinitionFiles(definition=path, workloads=workloads, root=root, sol=False, root_of_set=root)


def _definition(files: _DefinitionFiles) -> schema.Definition:
    text = _text(files.definition)
    try:
        definition = schema.Definition.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise ProblemInvalid(f"{files.definition}:{error.lineno}", f"is no JSON: {error.msg}") from None
    except ValidationError as error:
        raise _invalid(files.definition, text, 1, error) from None
    except (ValueError, RecursionError) as error:
        raise ProblemInvalid(str(files.definition), f"is no JSON that can be read: {error}") from None
    if not files.sol and definition.op_type is None:
        raise ProblemInvalid(str(files.definition), "op_type: is not there; add it")
    if files.sol and (pair := definition.misnamed()):
        raise ProblemInvalid(str(files.definition), f"reference: run's parameter {pair[0]!r} is the input {pair[1]!r}; give it that name")
    if why := schema.not_judged(definition):
        raise ProblemInvalid(str(files.definition), why)
    return definition


def _workloads(files: _DefinitionFiles, definition: schema.Definition) -> Iterator[wire.Workload]:
    lines = [(number, line) for number, line in enumerate(_text(files.workloads).split("\n"), 1) if line.strip()]
    if len(lines) > ROW_LIMIT:
        raise ProblemInvalid(str(files.workloads), f"has {len(lines)} workloads; keep at most {ROW_LIMIT}")
    seen, left = set[str](), safetensors.Left()
    for number, line in lines:
        place = f"{files.workloads}:{number}"
        try:
            row = schema.workload(json.loads(line), definition.name)
            workload_id = row.uuid if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", row.uuid) else f"line-{number}"
            if workload_id in seen:
                raise ValueError(f"uuid: {row.uuid!r} is there twice; change one")
            seen.add(workload_id)
            yield _workload(files, definition, row, workload_id, left)
        except json.JSONDecodeError as error:
            raise ProblemInvalid(place, f"is no JSON: {error.msg} at column {error.colno}") from None
        except ValidationError as error:
            raise _invalid(files.workloads, line, number, error) from None
        except (ValueError, RecursionError) as error:
            raise ProblemInvalid(place, str(error)) from None


def _workload(
    files: _DefinitionFiles, definition: schema.Definition, row: schema.WorkloadSchema, workload_id: str, left: safetensors.Left
) -> wire.Workload:
    var = {name for name, axis in definition.axes.items() if axis.type == "var"}
    if set(row.axes) != var:
        raise ValueError(f"axes: gives {sorted(row.axes)}, and the definition's var axes are {sorted(var)}; give exactly these")
    if unknown := sorted(set(row.inputs) - set(definition.inputs)):
        raise ValueError(f"inputs: {unknown[0]!r} is no input of the definition; leave it out")
    try:
        sizes = definition.sizes(row.axes)
    except ExpressionInvalid as wrong:
        raise ValueError(f"axes: {wrong}") from None
    total = sum(_bytes(one, sizes) for one in (*definition.inputs.values(), *definition.outputs.values()))
    if total > WORKLOAD_LIMIT_BYTES:
        raise ValueError(f"axes: its tensors take {total} bytes; at most {WORKLOAD_LIMIT_BYTES} can be judged, so make them smaller")
    inputs = {name: _input(files, definition, row, name, sizes, left) for name in definition.inputs}
    if not any(one["type"] in ("random", "custom") for one in inputs.values()):
        raise ValueError("inputs: all of them are fixed, so that an answer could be kept from call to call; make one random")
    rule = _rule(files, definition, row.tolerance)
    made = {"inputs": inputs, "rule": rule, "custom": definition.custom_inputs_entrypoint, "by_name": files.sol}
    return wire.Workload(
        workload_id=workload_id,
        axes=sizes,
        tolerance=wire.Tolerance(atol=rule["atol"], rtol=rule["rtol"], budget_factor=None),
        arguments=json.dumps(made, sort_keys=True),
    )


def _input(
    files: _DefinitionFiles,
    definition: schema.Definition,
    row: schema.WorkloadSchema,
    name: str,
    sizes: dict[str, int],
    left: safetensors.Left,
) -> dict[str, Any]:
    """Where an input comes from, for the judge. What a workload does not say is random."""
    tensor, describe = definition.inputs[name], row.inputs.get(name, schema.Random(type="random"))
    match describe:
        case schema.Scalar() if tensor.shape is not None:
            raise ValueError(f"inputs.{name}: is a scalar, and the definition says that it is a tensor; fix one")
        case schema.Custom() if definition.custom_inputs_entrypoint is None:
            raise ValueError(f"inputs.{name}: is custom, and the definition has no custom_inputs_entrypoint; add it")
        case schema.Safetensors():
            path = require_inside(files.root / describe.path, files.root_of_set, files.workloads)
            try:
                found = safetensors.find(path, describe.tensor_key, limit_bytes=left.bytes)
            except (safetensors.SafetensorsInvalid, OSError, RuntimeError) as wrong:  # the last one: links in a circle
                raise ValueError(f"inputs.{name}: {path} {wrong}") from None
            if (found.dtype, found.shape) != (tensor.dtype, _shape(tensor, sizes)):
                expected = f"{tensor.dtype} {list(_shape(tensor, sizes))}"
                raise ValueError(f"inputs.{name}: {path} has {found.dtype} {list(found.shape)}, and {expected} is expected; fix one")
            left.bytes -= found.end - found.begin
            return {**describe.model_dump(), "path": str(path), "begin": found.begin, "end": found.end, "digest": found.digest}
    return describe.model_dump()


def _rule(files: _DefinitionFiles, definition: schema.Definition, tolerance: schema.ToleranceSchema | None) -> dict[str, Any]:
    if not files.sol and tolerance is None:
        ratio = MATCHED_RATIO.get(definition.op_type or "", 1.0)
        return {"kind": "flashinfer", "atol": ATOL, "rtol": RTOL, "ratio": ratio, "cap": None, "negative_inf": False}
    of = tolerance or schema.ToleranceSchema()
    return {
        "kind": "sol",
        "atol": of.max_atol,
        "rtol": of.max_rtol,
        "ratio": of.required_matched_ratio,
        "cap": of.max_error_cap,
        "negative_inf": of.allow_negative_inf,
    }


def _spec(problem_id: str, definition: schema.Definition, workloads: tuple[wire.Workload, ...]) -> wire.ProblemSpec:
    def tensors(of: dict[str, schema.TensorSchema]) -> tuple[wire.TensorSpec, ...]:
        return tuple(
            wire.TensorSpec(name=name, dtype=one.dtype, shape=tuple(int(axis) if axis.isdecimal() else axis for axis in one.shape or ()))
            for name, one in of.items()
        )

    return wire.ProblemSpec(
        problem_id=problem_id,
        format=NAME,
        entry=schema.RUN,
        inputs=tensors(definition.inputs),
        outputs=tensors(definition.outputs),
        workloads=workloads,
        tolerance=wire.Tolerance(atol=ATOL, rtol=RTOL, budget_factor=None),
        reference=definition.reference,
        axes=tuple(definition.axes) if len(definition.axes) <= AXIS_LIMIT else (),
        digest=_digest(problem_id, definition, workloads),
    )


def _digest(problem_id: str, definition: schema.Definition, workloads: tuple[wire.Workload, ...]) -> str:
    def of(workload: wire.Workload) -> dict[str, Any]:
        made = json.loads(workload.arguments)
        places = {"path", "begin", "end"}  # where data lies decides nothing
        return {**made, "inputs": {name: {k: v for k, v in one.items() if k not in places} for name, one in made["inputs"].items()}}

    canonical = {
        "id": problem_id,
        "definition": definition.model_dump(mode="json", include={"axes", "inputs", "outputs", "reference"}),
        "order": [[*definition.axes], [*definition.inputs], [*definition.outputs]],
        "workloads": [[one.workload_id, one.axes, of(one)] for one in workloads],
    }
    return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()


def _is_plain(definition: schema.Definition) -> bool:
    """Whether C++ can take the tensors."""
    return all(one.dtype in schema.SAFE_DTYPES for one in (*definition.inputs.values(), *definition.outputs.values()))


def _shape(tensor: schema.TensorSchema, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(int(axis) if axis.isdecimal() else sizes[axis] for axis in tensor.shape or ())


def _bytes(tensor: schema.TensorSchema, sizes: dict[str, int]) -> int:
    return BYTES.get(tensor.dtype, 1) * math.prod(_shape(tensor, sizes))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise ProblemInvalid(str(path), f"is over {FILE_LIMIT_BYTES} bytes; make it smaller")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemInvalid(str(path), f"can't be read: {error}; a problem is a definition and its workloads") from None


def _invalid(path: Path, text: str, line: int, error: ValidationError) -> ProblemInvalid:
    """The first thing that is wrong, with its line and key."""
    first = error.errors()[0]
    at, keys = 0, [str(part) for part in first["loc"] if part not in KINDS]
    for key in keys:
        at = max(at, text.find(f'"{key}"', at))
    return ProblemInvalid(f"{path}:{line + text.count(chr(10), 0, at)}", f"{'.'.join(keys) or path.name}: {describe(first)}")
