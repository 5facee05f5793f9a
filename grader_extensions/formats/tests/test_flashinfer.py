"""A definition and its workloads are read without being executed, wherever they lie; what is wrong is named by file, line and key."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader_extensions.formats import flashinfer
from grader_extensions.formats.problem_sets import import_all
from sandbox.protocol import wire

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "flashinfer"
RMSNORM = FIXTURES / "trace" / "definitions" / "rmsnorm" / "rmsnorm_h128.json"
DEFINITION = json.loads((FIXTURES / "scaled_rows" / "definition.json").read_text())
WORKLOAD = json.loads((FIXTURES / "scaled_rows" / "workload.jsonl").read_text().splitlines()[0])


def write(directory: Path, definition: object = DEFINITION, *workloads: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "definition.json").write_text(definition if isinstance(definition, str) else json.dumps(definition, indent=1))
    lines = [workload if isinstance(workload, str) else json.dumps(workload) for workload in workloads or (WORKLOAD,)]
    (directory / "workload.jsonl").write_text("\n".join(lines) + "\n")
    return directory


def changed(of: dict, *path: str, value: object = None) -> dict:
    """A copy with what lies at path replaced; None takes it away."""
    result = copy.deepcopy(of)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


def message_of(directory: Path) -> str:
    with pytest.raises(ProblemInvalid) as caught:
        flashinfer.load(directory)
    return str(caught.value)


def test_a_problem_of_sols_reads_back():
    """Axes have values, expressions too; scalars have no shape; each workload has its own tolerance."""
    problem = flashinfer.load(FIXTURES / "scaled_rows")
    spec = problem.spec
    assert (problem.problem_id, spec.entry, spec.convention) == ("scaled_rows_d64", "run", wire.Convention.POSITIONAL)
    assert [workload.axes for workload in spec.workloads] == [{"rows": n, "width": 64, "half": 32, "flat": 32 * n} for n in (5, 100)]
    assert [(tensor.name, tensor.shape) for tensor in spec.inputs] == [("x", ("rows", "width")), ("scale", ())]
    rules = [json.loads(workload.arguments)["rule"] for workload in spec.workloads]
    assert [(rule["kind"], rule["atol"], rule["ratio"]) for rule in rules] == [("sol", 1e-3, 1.0), ("sol", 1e-2, 0.99)]
    assert problem.languages == ("python", "torch_extension", "cuda", "tvm_ffi") and spec.axes == ("rows", "width", "half", "flat")


def test_a_trace_set_holds_its_definitions():
    problems = {problem.problem_id: problem.spec for problem in map(flashinfer.load, flashinfer.members(FIXTURES / "trace"))}
    rules = {name: json.loads(spec.workloads[0].arguments)["rule"] for name, spec in problems.items()}
    assert {name: (rule["kind"], rule["ratio"]) for name, rule in rules.items()} == {
        "rmsnorm_h128": ("flashinfer", 1.0),
        "pick_expert_e4": ("flashinfer", 0.95),
    }
    assert flashinfer.matches(RMSNORM) and not flashinfer.matches(FIXTURES) and flashinfer.members(FIXTURES) == ()


def test_the_digest_changes_with_what_decides_a_verdict_only(tmp_path):
    """A description is no part of it; an order of inputs, a tolerance and the reference are."""
    directory = tmp_path / "p"
    before = flashinfer.load(write(directory)).digest
    assert flashinfer.load(write(directory, {**DEFINITION, "description": "other"})).digest == before
    looser = changed(WORKLOAD, "tolerance", "max_atol", value=0.5)
    reference = {**DEFINITION, "reference": DEFINITION["reference"] + "\n"}
    digests = {before, flashinfer.load(write(directory, DEFINITION, looser)).digest, flashinfer.load(write(directory, reference)).digest}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("{", "definition.json:1: is not JSON"),
        ("[" * 100_000, "can't be read: "),
        ("[]", "valid dictionary"),
        ({**DEFINITION, "inptus": {}}, "inptus: is not a key here; leave it out"),
        (changed(DEFINITION, "axes", "rows", "type", value="variable"), "axes.rows"),
        (changed(DEFINITION, "axes", "width", "value", value=-1), "value: Input should be greater than or equal to 0"),
        (changed(DEFINITION, "axes", "width", "value", value="64"), "valid integer"),
        (changed(DEFINITION, "axes", "width", "value", value=10**12), "less than or equal to 2147483647"),
        (changed(DEFINITION, "inputs", "x", "shape", value=["rows", "depth"]), "the shape of 'x' uses 'depth', which is not in axes"),
        (changed(DEFINITION, "inputs", "x", "shape", value=["rows", "99999999999"]), "'99999999999', which is not in axes"),
        (changed(DEFINITION, "inputs", "x", "shape", value=["rows"] * 9), "x.shape: has 9 dimensions"),
        (changed(DEFINITION, "inputs", "x", "dtype", value="float4_e2m1"), "x.dtype: float4_e2m1 can't be judged here"),
        (changed(DEFINITION, "outputs", "y", "dtype", value="float4_e2m1fn_x2"), "y.dtype: float4_e2m1fn_x2 can't be judged here"),
        (changed(DEFINITION, "outputs", "y", "dtype", value="complex64"), "outputs.y.dtype"),
        (changed(DEFINITION, "outputs", value={"x": DEFINITION["outputs"]["y"]}), "'x' is an input and an output"),
        (changed(DEFINITION, "outputs"), "outputs: Field required"),
        ({**DEFINITION, "reference": "def go(x, scale): pass"}, "no top-level function 'run'"),
        ({**DEFINITION, "reference": "def run(x, scale"}, "reference is not Python at its line 1"),
        ({**DEFINITION, "reference": "def run(x): pass"}, "run(x) does not take the 2 inputs x, scale"),
        ({**DEFINITION, "reference": "def run(x, factor): pass"}, "parameter 'factor' is the input 'scale'"),
        ({**DEFINITION, "custom_inputs_entrypoint": "make"}, "no top-level function 'make'"),
        ({**DEFINITION, "constraints": ["rows >"]}, "'rows >' is not an expression"),
        ({**DEFINITION, "op_type": "sampling"}, "'sampling' is judged by the distribution of many samples"),
        ({**DEFINITION, "name": "dsa_topk_indexer_fp8"}, "judged by the scores of what is chosen"),
    ],
)
def test_a_wrong_definition_names_file_and_key(tmp_path, definition, expected):
    message = message_of(write(tmp_path / "p", definition))
    assert "definition.json" in message and expected in message and "Value error" not in message


def with_axes(tmp_path: Path, expressions: dict[str, str]) -> Path:
    axes = {name: {"type": "expr", "expression": text} for name, text in expressions.items()}
    return write(tmp_path / "p", {**DEFINITION, "axes": {**DEFINITION["axes"], **axes}})


@pytest.mark.parametrize(
    ("expressions", "sizes"),
    [
        ({"a": "rows * width // 3", "b": "a + 1"}, {"a": 106, "b": 107}),
        ({"b": "a ** 2", "a": "rows % 3"}, {"a": 2, "b": 4}),
        ({"a": "width / 2 / 2 - -rows"}, {"a": 21}),
        ({"a": "+(rows * width) / 10"}, {"a": 32}),
    ],
)
def test_expressions_have_whole_values(tmp_path, expressions, sizes):
    axes = flashinfer.load(with_axes(tmp_path, expressions)).spec.workloads[0].axes
    assert {name: axes[name] for name in sizes} == sizes


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ({"a": "b + 1", "b": "a - 1"}, "axes a, b are defined by each other"),
        ({"a": "a"}, "axes a are defined by each other"),
        ({"a": "depth"}, "axis 'a' uses 'depth', which is not in axes"),
        ({"a": "rows / 3"}, "axis 'a' divides 5 by 3, which is not a whole number"),
        ({"a": "rows / 0"}, "axis 'a' divides 5 by 0"),
        ({"a": "rows - 6"}, "axis 'a' 'rows - 6' is -1"),
        ({"a": "open('x')"}, "which is not in axes"),
        ({"a": "rows."}, "is not an expression"),
        ({"a": "rows ** 8 ** 8"}, "an exponent is from 0 to 8"),
        ({"a": "width ** 8"}, "axis 'a' is 281474976710656; the largest is 2 ** 31 - 1"),
        ({"a": "(" * 99 + "rows" + ")" * 99}, "String should have at most 200 characters"),
    ],
)
def test_an_axis_without_value_says_why(tmp_path, expressions, expected):
    assert expected in message_of(with_axes(tmp_path, expressions))


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("{]", "workload.jsonl:1: is not JSON"),
        ("3", "workload.jsonl:1: "),
        ({**WORKLOAD, "axis": {}}, "axis: is not a key here; leave it out"),
        ({**WORKLOAD, "axes": {}}, "axes: gives [], and the definition's var axes are ['rows']"),
        ({**WORKLOAD, "axes": {"rows": 5, "half": 2}}, "give exactly these"),
        ({**WORKLOAD, "axes": {"rows": -5}}, "axes.rows: "),
        ({**WORKLOAD, "axes": {"rows": 10**12}}, "axes.rows: "),
        ({**WORKLOAD, "axes": {"rows": 2**31 - 1}}, "axis 'flat' is 68719476704; the largest is 2 ** 31 - 1"),
        (changed(WORKLOAD, "inputs", "z", value={"type": "random"}), "inputs: 'z' is not an input of the definition"),
        (changed(WORKLOAD, "inputs", "x", value={"type": "scalar", "value": 1}), "inputs.x: is a scalar, and the definition says"),
        (changed(WORKLOAD, "inputs", "x", value={"type": "normal"}), "inputs.x"),
        (changed(WORKLOAD, "inputs", "scale", "value", value=2**60), "inputs.scale"),
        (changed(WORKLOAD, "inputs", value={"x": {"type": "custom"}, "scale": {"type": "random"}}), "custom ones next to random ones"),
        (changed(WORKLOAD, "inputs", "x", value={"type": "custom"}), "has no custom_inputs_entrypoint"),
        (changed(WORKLOAD, "tolerance", "max_rtol", value="1"), "tolerance.max_rtol"),
        (changed(WORKLOAD, "tolerance", "required_matched_ratio", value=1.5), "required_matched_ratio"),
        ({"definition": "other", "workload": WORKLOAD}, "definition: it is of 'other', not of 'scaled_rows_d64'"),
        ({"definition": "scaled_rows_d64", "workload": WORKLOAD, "solution": "s"}, "solution"),
    ],
)
def test_a_wrong_workload_names_line_and_key(tmp_path, workload, expected):
    message = message_of(write(tmp_path / "p", DEFINITION, workload))
    assert "workload.jsonl:1" in message and expected in message


def test_tensors_that_no_device_holds_are_refused(tmp_path):
    definition = {**DEFINITION, "axes": {key: {"type": "var"} for key in ("rows", "width", "half", "flat")}}
    workload = {**WORKLOAD, "axes": {"rows": 10**6, "width": 10**6, "half": 1, "flat": 1}}
    assert "its tensors take 4000004000008 bytes" in message_of(write(tmp_path / "p", definition, workload))


def safetensors(path: Path, key: str = "t", dtype: str = "F32", shape: tuple[int, ...] = (5, 64), content: bytes = bytes(1280)) -> None:
    header = json.dumps({key: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(content)]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def stored(directory: Path, **scale: object) -> Path:
    definition = changed(DEFINITION, "inputs", "scale", "shape", value=["half"])
    inputs = {"x": {"type": "safetensors", "path": "data.safetensors", "tensor_key": "t"}, "scale": scale or {"type": "random"}}
    return write(directory, definition, {**WORKLOAD, "inputs": inputs})


def test_an_input_in_a_file_is_passed_along(tmp_path):
    """By its place and digest; where it lies is no part of the problem's digest."""
    digests = []
    for name in ("p", "q"):
        directory = stored(tmp_path / name)
        safetensors(directory / "data.safetensors")
        problem = flashinfer.load(directory)
        source = json.loads(problem.spec.workloads[0].arguments)["inputs"]["x"]
        assert source["path"] == str(directory / "data.safetensors") and source["end"] - source["begin"] == 1280
        digests.append(problem.digest)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda path: None, "is not there; fetch the data"),
        (lambda path: path.write_text("version https://git-lfs\n"), "is not a safetensors file; if it is a pointer of git LFS"),
        (lambda path: safetensors(path, key="u"), "has no tensor 't'"),
        (lambda path: safetensors(path, dtype="I32"), "has int32 [5, 64], and float32 [5, 64] is expected"),
        (lambda path: safetensors(path, shape=(64, 5)), "has float32 [64, 5]"),
        (lambda path: safetensors(path, dtype="Q9"), "of a known dtype"),
        (lambda path: (safetensors(path), path.write_bytes(path.read_bytes()[:-1])), "is cut off"),
        (lambda path: path.write_bytes((2**60).to_bytes(8, "little")), "is not a safetensors file"),
    ],
)
def test_a_file_that_can_not_be_used_says_why(tmp_path, spoil, expected):
    directory = stored(tmp_path / "p")
    spoil(directory / "data.safetensors")
    message = message_of(directory)
    assert "workload.jsonl:1: inputs.x: " in message and "data.safetensors" in message and expected in message


def test_inputs_that_are_all_fixed_are_refused(tmp_path):
    """An answer could be kept from call to call; control: with one random input it is read."""
    directory = write(
        tmp_path / "p",
        DEFINITION,
        changed(WORKLOAD, "inputs", "x", value={"type": "safetensors", "path": "data.safetensors", "tensor_key": "t"}),
    )
    safetensors(directory / "data.safetensors")
    assert "an answer could be kept from call to call" in message_of(directory)
    control = stored(tmp_path / "q")
    safetensors(control / "data.safetensors")
    assert flashinfer.load(control).spec.workloads


NAME = "clipped_sum_w96"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "flat", tmp_path / "trace"))


@pytest.mark.parametrize(
    ("definition", "workloads"),
    [
        (f"{NAME}.json", f"{NAME}.jsonl"),
        (f"reduction/{NAME}.json", f"reduction/{NAME}.jsonl"),
        (f"a/b/c/{NAME}.json", f"a/b/c/{NAME}.jsonl"),
        (f"{NAME}.json", f"reduction/{NAME}.jsonl"),
        (f"reduction/{NAME}.json", f"{NAME}.jsonl"),
        ("short.json", f"other/{NAME}.jsonl"),
    ],
)
def test_a_trace_set_is_flat_or_nested(trace: Path, definition: str, workloads: str) -> None:
    before = flashinfer.load(trace / "definitions" / f"{NAME}.json")
    for folder, name, old in (("definitions", definition, f"{NAME}.json"), ("workloads", workloads, f"{NAME}.jsonl")):
        target = trace / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (trace / folder / old).rename(target)
    (entry,) = import_all(trace)
    assert entry.problem == before and flashinfer.members(trace) == (trace / "definitions" / definition,)


def test_definitions_of_other_things_are_no_trace_set(tmp_path: Path) -> None:
    """Such as JSON schemas. Control: with workloads next to them they are, and the wrong file is named."""
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "schema.json").write_text("{}")
    assert list(import_all(tmp_path)) == [] and not flashinfer.matches(tmp_path / "definitions" / "schema.json")
    (tmp_path / "workloads").mkdir()
    (entry,) = import_all(tmp_path)
    assert entry.path.name == "schema.json" and "name: Field required" in entry.reason


def test_the_emulated_device_runs_what_is_small(trace: Path) -> None:
    (entry,) = import_all(trace)
    assert entry.problem is not None
    kinds = {workload.workload_id: workload.device_kind for workload in entry.problem.spec.workloads}
    assert kinds == {"rows-7": "", "rows-130": "", "rows-1000000": "cuda"}
    assert entry.warnings == ("the emulated device runs 2 of its 3 sizes, a GPU all of them",)


def test_a_problem_without_a_small_size_says_what_can_grade_it(trace: Path) -> None:
    path = trace / "workloads" / f"{NAME}.jsonl"
    row = json.loads(path.read_text().splitlines()[1])
    (entry,) = written(path, row, rows=1 << 20, trace=trace)
    assert [workload.device_kind for workload in entry.problem.spec.workloads] == [""] and entry.warnings == ()
    (entry,) = written(path, row, rows=1 << 23, trace=trace)
    assert [workload.device_kind for workload in entry.problem.spec.workloads] == ["cuda"]
    assert entry.warnings == ("all its sizes are too large for the emulated device: only a GPU can grade it",)


def written(path: Path, row: dict, *, rows: int, trace: Path) -> list:
    row["workload"]["axes"]["rows"] = rows
    path.write_text(json.dumps(row) + "\n")
    return list(import_all(trace))
