"""The flashinfer format: a definition with its workloads, as FlashInfer-Trace lays them out, and the superset that SOL-ExecBench uses.

A directory with definition.json and workload.jsonl is SOL's, and compared by SOL's rule; a trace set is FlashInfer's, and compared by
that. Nothing is executed. A submission may return its outputs or take them behind its inputs. The emulated device runs the smallest
workloads only (`problem_files.py`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.errors import ProblemInvalid
from grader.formats.arithmetic import ExpressionInvalid
from grader.formats.inside import require_inside
from grader.model import NewSubmission, Problem, problem_id_of
from grader.rules.sweep import item_bytes
from grader_extensions.formats import problem_files
from grader_extensions.formats.flashinfer_schema import (
    RUN,
    Definition,
    Drawn,
    Row,
    TensorSchema,
    ToleranceSchema,
    WorkloadSchema,
    not_judged,
)
from grader_extensions.formats.problem_files import digest_of, read_text, reported
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.directives import directives_of
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import CUDA

HEADER_LIMIT_BYTES, TENSOR_LIMIT_BYTES = 16 << 20, 1 << 30
TOTAL_LIMIT_BYTES = 16 << 30  # of one problem
STORED_RANK_LIMIT, STORED_SIZE_LIMIT = 32, 1 << 40  # of a tensor in a file
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "BOOL": "bool",
}  # fmt: skip


def find(path: Path, key: str, *, limit_bytes: int = TOTAL_LIMIT_BYTES) -> tuple[str, tuple[int, ...], dict[str, Any]]:
    """Return the dtype and shape of the tensor of that key, and its begin, end (in bytes) and digest (sha256); ValueError where it can't be
    used. limit_bytes: what the problem's other tensors leave."""
    if not path.is_file():
        raise ValueError("is not there; fetch the data of the problem set too (such as by `git lfs pull`), or leave the workload out")
    with path.open("rb") as file:
        count = int.from_bytes(file.read(8), "little")
        if not 2 <= count <= HEADER_LIMIT_BYTES:
            raise ValueError("is not a safetensors file; if it is a pointer of git LFS, fetch what it points to by `git lfs pull`")
        try:
            entry = json.loads(file.read(count))[key]
            begin, end = (8 + count + int(offset) for offset in entry["data_offsets"])
            dtype, shape = DTYPES[entry["dtype"]], tuple(int(size) for size in entry["shape"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"has no tensor {key!r} of a known dtype ({type(error).__name__}: {error}); fix tensor_key") from None
        size = path.stat().st_size
        if not (8 + count <= begin <= end <= size and end - begin <= TENSOR_LIMIT_BYTES and min(shape, default=1) >= 0):
            raise ValueError(f"is cut off, or {key!r} has over {TENSOR_LIMIT_BYTES} bytes; fetch it again")
        if end - begin > limit_bytes:
            raise ValueError(f"is too much: the tensors of a problem may have {TOTAL_LIMIT_BYTES} bytes; leave workloads out")
        if len(shape) > STORED_RANK_LIMIT or max(shape, default=0) > STORED_SIZE_LIMIT:
            raise ValueError(f"says of {key!r} that it has a shape that no tensor has; fetch it again")
        if end - begin != math.prod(shape) * item_bytes(dtype):
            raise ValueError(f"says of {key!r} that {end - begin} bytes are of the shape {list(shape)}; fetch it again")
        file.seek(begin)
        digest = hashlib.sha256()
        while begin + (remaining := end - file.tell()) > begin:
            digest.update(file.read(min(remaining, 1 << 20)))
    return dtype, shape, {"begin": begin, "end": end, "digest": digest.hexdigest()}


def with_calling_convention(spec: wire.ProblemSpec, new_submission: NewSubmission) -> wire.ProblemSpec:
    """The spec as a submission's entry takes it: with its outputs behind its inputs ("destination passing"), where a line
    `grader: destination=true` in a comment says so.

    Of others the entry's parameters tell, once it is loaded. A raw CUDA entry has its own convention: it always gets its outputs.
    """
    sources = new_submission.sources if new_submission.language != CUDA else ()
    directive = next((value for source in sources for value in directives_of(source.content, "destination")), "")
    return dataclasses.replace(spec, convention=wire.Convention.DESTINATION) if directive.split()[:1] == ["true"] else spec


DEFINITION, WORKLOAD = "definition.json", "workload.jsonl"
DEFINITIONS, WORKLOADS = "definitions", "workloads"
LAYOUT = (
    f"a directory with {DEFINITION} and {WORKLOAD}, or a trace set: "
    f"{DEFINITIONS}/NAME.json or {DEFINITIONS}/OP/NAME.json, and NAME.jsonl below {WORKLOADS}/ next to it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFiles:
    """A definition and what belongs to it. root: what paths of safetensors are relative to. root_of_set: outside of which nothing is read.

    sol: whether the layout, and with it the rule of comparison, is SOL's.
    """

    definition: Path
    root: Path
    sol: bool
    root_of_set: Path

    def workloads(self, name: str) -> Path:
        """The file of the workloads of the definition called name: in SOL's directory, else in the same place below `workloads/`, or
        anywhere below it. The first of these where there is none."""
        if self.sol:
            return self.root / WORKLOAD
        top = self.root / WORKLOADS
        same_place = top / self.definition.relative_to(self.root / DEFINITIONS).with_suffix(".jsonl")
        if same_place.is_file():
            return same_place
        wanted = {same_place.name, f"{name}.jsonl"}
        return next((path for path in sorted(top.rglob("*.jsonl")) if path.name in wanted), same_place)


def files_of(path: Path) -> DefinitionFiles | None:
    """The files of the problem at path: a directory of SOL's or the definition in it, or a definition of a trace set."""
    directory = path.parent if path.name == DEFINITION else path
    if (directory / DEFINITION).is_file():
        return DefinitionFiles(definition=directory / DEFINITION, root=directory, sol=True, root_of_set=directory)
    if path.suffix != ".json" or not path.is_file():
        return None
    root = next((parent.parent for parent in path.parents if parent.name == DEFINITIONS and is_trace_set(parent.parent)), None)
    return None if root is None else DefinitionFiles(definition=path, root=root, sol=False, root_of_set=root)


def is_trace_set(path: Path) -> bool:
    """Return whether a trace set lies at path: other directories called `definitions` hold other things."""
    return (path / DEFINITIONS).is_dir() and (path / WORKLOADS).is_dir()


NAME = "flashinfer"
PARTS = "a definition and its workloads"
FILE_LIMIT_BYTES, ROW_LIMIT, WORKLOAD_LIMIT_BYTES = 4 << 20, 1000, 1 << 38
MATCHED_RATIO = {"moe": 0.95, "lowbit": 0.95}  # by op_type: FlashInfer's eval_config.yaml
ATOL = RTOL = 1e-2
TRIAL_S = 30.0  # the smallest of their sizes take seconds on the emulated device


warnings = problem_files.warnings


def matches(path: Path) -> bool:
    """Return whether a problem of this format lies at path: a directory of SOL's, or a definition of a trace set."""
    return files_of(path) is not None


def members(path: Path) -> tuple[Path, ...]:
    """The definitions of the trace set at path, at any depth; () where it is none."""
    return tuple(sorted((path / DEFINITIONS).rglob("*.json"))) if is_trace_set(path) else ()


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem at path. root: the set, if it is larger than the directory that the format itself has for one."""
    files = files_of(path)
    if files is None:
        raise ProblemInvalid(str(path), f"is not a problem of this format; name {LAYOUT}")
    if root is not None and files.root.resolve().is_relative_to(root.resolve()):
        files = dataclasses.replace(files, root_of_set=root)
    require_inside(files.definition, files.root_of_set, files.definition)
    definition = _definition(files)
    rows = files.workloads(definition.name)
    require_inside(rows, files.root_of_set, files.definition)
    workloads = tuple(_WorkloadReader(files, definition).read(rows))
    if not workloads:
        raise ProblemInvalid(str(rows), "has no workload; add a line")
    tensors = (*definition.inputs.values(), *definition.outputs.values())
    elements = {workload.workload_id: sum(math.prod(_shape(tensor, workload.axes)) for tensor in tensors) for workload in workloads}
    everywhere = problem_files.for_emulated(elements)
    kinds = ["" if workload.workload_id in everywhere else DeviceKind.CUDA for workload in workloads]
    workloads = tuple(dataclasses.replace(workload, device_kind=kind) for workload, kind in zip(workloads, kinds, strict=True))
    problem_id = problem_id_of(definition.name)
    spec = _spec(problem_id, definition, workloads)
    is_plain = all(tensor.shape is not None or not tensor.dtype.startswith("float8") for tensor in tensors)  # C++ can take them
    compiled = [language for language in languages() if language != "python"] if spec.axes and is_plain else []
    return Problem(
        problem_id=problem_id, title=definition.name, languages=("python", *compiled), spec=spec, statement=definition.description or ""
    )


def unusable(problem: Problem) -> str:
    """Why no judge here can run the reference: a package that it imports is missing; "" where none is."""
    return problem_files.unusable({"reference": problem.spec.reference}, "reference", (RUN,))


def _definition(files: DefinitionFiles) -> Definition:
    text = read_text(files.definition, FILE_LIMIT_BYTES, PARTS)
    with reported(files.definition, text):
        definition = Definition.model_validate(json.loads(text))
    if not files.sol and definition.op_type is None:
        raise ProblemInvalid(str(files.definition), "op_type: is not there; add it")
    for parameter, name in zip(definition.parameters() if files.sol else (), definition.inputs, strict=False):
        if parameter != name:
            raise ProblemInvalid(
                str(files.definition), f"reference: run's parameter {parameter!r} is the input {name!r}; give it that name"
            )
    if why := not_judged(definition):
        raise ProblemInvalid(str(files.definition), why)
    return definition


class _WorkloadReader:
    """Reads the workloads of a definition."""

    def __init__(self, files: DefinitionFiles, definition: Definition) -> None:
        self._files, self._definition = files, definition
        self._tensors = (*definition.inputs.values(), *definition.outputs.values())
        self._left_bytes = TOTAL_LIMIT_BYTES  # of tensors that may still be read for the problem: each is hashed

    def read(self, path: Path) -> Iterator[wire.Workload]:
        """Yield the workload of each line."""
        text = read_text(path, FILE_LIMIT_BYTES, PARTS)
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) > ROW_LIMIT:
            raise ProblemInvalid(str(path), f"has {len(lines)} workloads; keep at most {ROW_LIMIT}")
        workload_ids = set[str]()
        for number, line in lines:
            with reported(path, line, number):
                row = self._row(json.loads(line))
                workload_id = row.uuid if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", row.uuid) else f"line-{number}"
                if workload_id in workload_ids:
                    raise ValueError(f"uuid: {row.uuid!r} is there twice; change one")
                workload_ids.add(workload_id)
                yield self._workload(row, workload_id)

    def _row(self, line: Any) -> WorkloadSchema:
        if not isinstance(line, dict) or "workload" not in line:
            return WorkloadSchema.model_validate(line)
        row = Row.model_validate(line)
        if row.definition != self._definition.name:
            raise ValueError(f"definition: it is of {row.definition!r}, not of {self._definition.name!r}; leave the line out")
        return row.workload

    def _workload(self, row: WorkloadSchema, workload_id: str) -> wire.Workload:
        definition = self._definition
        var = {name for name, axis in definition.axes.items() if axis.type == "var"}
        if set(row.axes) != var:
            raise ValueError(f"axes: gives {sorted(row.axes)}, and the definition's var axes are {sorted(var)}; give exactly these")
        if unknown := sorted(set(row.inputs) - set(definition.inputs)):
            raise ValueError(f"inputs: {unknown[0]!r} is not an input of the definition; leave it out")
        try:
            sizes = definition.sizes(row.axes)
        except ExpressionInvalid as wrong:
            raise ValueError(f"axes: {wrong}") from None
        total = sum(item_bytes(tensor.dtype) * math.prod(_shape(tensor, sizes)) for tensor in self._tensors)
        if total > WORKLOAD_LIMIT_BYTES:
            raise ValueError(f"axes: its tensors take {total} bytes; at most {WORKLOAD_LIMIT_BYTES} can be judged, so make them smaller")
        inputs = {name: self._input(row, name, sizes) for name in definition.inputs}
        if not any(source["type"] in ("random", "custom") for source in inputs.values()):
            raise ValueError("inputs: all of them are fixed, so that an answer could be kept from call to call; make one random")
        rule = self._rule(row.tolerance)
        arguments = {"inputs": inputs, "rule": rule, "custom": definition.custom_inputs_entrypoint, "by_name": self._files.sol}
        return wire.Workload(
            workload_id=workload_id,
            axes=sizes,
            tolerance=wire.Tolerance(atol=rule["atol"], rtol=rule["rtol"], budget_factor=None),
            arguments=json.dumps(arguments, sort_keys=True),
        )

    def _input(self, row: WorkloadSchema, name: str, sizes: dict[str, int]) -> dict[str, Any]:
        """Where an input comes from, for the judge. What a workload does not say is random."""
        tensor, source = self._definition.inputs[name], row.inputs.get(name, Drawn(type="random"))
        if source.type == "scalar" and tensor.shape is not None:
            raise ValueError(f"inputs.{name}: is a scalar, and the definition says that it is a tensor; fix one")
        if source.type == "custom" and self._definition.custom_inputs_entrypoint is None:
            raise ValueError(f"inputs.{name}: is custom, and the definition has no custom_inputs_entrypoint; add it")
        if source.type != "safetensors":
            return source.model_dump()
        path = require_inside(self._files.root / source.path, self._files.root_of_set, self._files.definition)
        shape = _shape(tensor, sizes)
        try:
            dtype, stored_shape, place = find(path, source.tensor_key, limit_bytes=self._left_bytes)
        except (ValueError, OSError, RuntimeError) as wrong:  # the last one: links in a circle
            raise ValueError(f"inputs.{name}: {path} {wrong}") from None
        if (dtype, stored_shape) != (tensor.dtype, shape):
            expected = f"{tensor.dtype} {list(shape)}"
            raise ValueError(f"inputs.{name}: {path} has {dtype} {list(stored_shape)}, and {expected} is expected; fix one")
        self._left_bytes -= place["end"] - place["begin"]
        return {**source.model_dump(), "path": str(path), **place}

    def _rule(self, tolerance: ToleranceSchema | None) -> dict[str, Any]:
        theirs = not self._files.sol and tolerance is None
        ratio = MATCHED_RATIO.get(self._definition.op_type or "", 1.0)
        tolerance = tolerance or (ToleranceSchema(required_matched_ratio=ratio) if theirs else ToleranceSchema())
        return {
            "kind": "flashinfer" if theirs else "sol",
            "atol": tolerance.max_atol,
            "rtol": tolerance.max_rtol,
            "ratio": tolerance.required_matched_ratio,
            "cap": tolerance.max_error_cap,
            "negative_inf": tolerance.allow_negative_inf,
        }


def _rule_text(workloads: Sequence[wire.Workload]) -> str:
    """Return what counts as right, for people; of workloads with rules of their own a digest of them."""
    rules = [json.loads(workload.arguments)["rule"] for workload in workloads]
    first = rules[0]
    if any(rule != first for rule in rules):
        digest = digest_of(rules)[:8]
        return f"SOL-ExecBench's rule, with tolerances of each workload ({digest})"
    near = (
        f"|out - ref| <= {first['atol']:g} or |out - ref| / |ref| <= {first['rtol']:g}"
        if first["kind"] == "flashinfer"
        else f"|out - ref| <= {first['atol']:g} + {first['rtol']:g} * |ref|"
    )
    cap = "" if first["cap"] is None else f", none off by more than {first['cap']:g}"
    return f"{near} for {first['ratio']:.4g} of the elements{cap}"


def _spec(problem_id: str, definition: Definition, workloads: tuple[wire.Workload, ...]) -> wire.ProblemSpec:
    def tensors(of: dict[str, TensorSchema]) -> tuple[wire.TensorSpec, ...]:
        return tuple(
            wire.TensorSpec(
                name=name, dtype=tensor.dtype, shape=tuple(int(axis) if axis.isdecimal() else axis for axis in tensor.shape or ())
            )
            for name, tensor in of.items()
        )

    return wire.ProblemSpec(
        problem_id=problem_id,
        format=NAME,
        entry=RUN,
        inputs=tensors(definition.inputs),
        outputs=tensors(definition.outputs),
        workloads=workloads,
        tolerance=wire.Tolerance(atol=ATOL, rtol=RTOL, budget_factor=None),
        reference=definition.reference,
        axes=tuple(definition.axes) if len(definition.axes) <= problem_files.AXIS_LIMIT else (),
        trial_s=TRIAL_S,
        digest=_digest(problem_id, definition, workloads),
        rule=_rule_text(workloads),
    )


def _digest(problem_id: str, definition: Definition, workloads: tuple[wire.Workload, ...]) -> str:
    def of(workload: wire.Workload) -> dict[str, Any]:
        arguments = json.loads(workload.arguments)
        places = {"path", "begin", "end"}  # where data lies decides nothing
        return {
            **arguments,
            "inputs": {name: {k: v for k, v in source.items() if k not in places} for name, source in arguments["inputs"].items()},
        }

    canonical = {
        "id": problem_id,
        "definition": definition.model_dump(mode="json", include={"axes", "inputs", "outputs", "reference"}),
        "order": [[*definition.axes], [*definition.inputs], [*definition.outputs]],
        "workloads": [[workload.workload_id, workload.axes, of(workload), workload.device_kind] for workload in workloads],
    }
    return digest_of(canonical)


def _shape(tensor: TensorSchema, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(int(axis) if axis.isdecimal() else sizes[axis] for axis in tensor.shape or ())
