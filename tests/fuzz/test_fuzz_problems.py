"""Problem files of every format: a problem that can be judged, or a ProblemInvalid; and nothing in them is executed."""

from __future__ import annotations

import builtins
import json
import math
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, find, given
from hypothesis import strategies as st

from grader.api import messages
from grader.errors import ProblemInvalid
from grader.formats import arithmetic, flashinfer, kernelbench, native, reference_kernels, robust_kbench
from grader.formats.arithmetic import ExpressionInvalid
from grader.model import Problem
from grader.problems import kept, store
from sandbox.protocol import gate, wire
from tests.fuzz import values

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
RAN = "fuzz_ran"  # what a text below would set in builtins, were it executed
PYTHON_BOMB = f"__import__('builtins').{RAN} = 1\n"
YAML_BOMB = f"!!python/object/apply:builtins.exec [\"__import__('builtins').{RAN} = 1\"]"

NATIVE = sorted(path.parent for path in (ROOT / "kernels_examples").glob("*/problem.toml"))
TASKS = sorted(path.parent for path in FIXTURES.glob("reference_kernels/*/task.yml"))
KERNELBENCH = sorted(FIXTURES.glob("kernelbench/*.py"))
DEFINITION = FIXTURES / "flashinfer" / "scaled_rows"
ROBUST = FIXTURES / "robust_kbench" / "row_scale"

TOML_WORDS = (
    "[[inputs]]", "[[workloads]]", "[tolerance]", "nan", "inf", "-inf", "1e400", "0x", "1979-05-27", "[", "{", "''''", '"""', "= ",
    "\\ud800",
    'kind = "index"', 'kind = "sorted"', 'kind = "mixture"', 'high = "n"', "low = inf", "shape = [-1]", "axes = []",
    'moved_bytes = "n ** n"',
)  # fmt: skip
YAML_WORDS = (
    "!!timestamp x", "!!bool x", "!!int ''", "!!float ''", "!!binary x", "!!set x", "!!omap x", "!!pairs x", "!!null x", "&a [*a]",
    "*a", "<<: 1",
    "? [a]", "2001-99-99", "1:99:99", "0b_", "-0x", "=", ".inf", "\"\\UFFFFFFFF\"", "\"\\ud800\"", "%TAG ! x", "---", "...", "- ",
    ": ", "[", "{",
    YAML_BOMB, "!!python/name:os.system", "0o9", "+", "-", "_", "0x_", ".", "1e999",
)  # fmt: skip
PYTHON_WORDS = (
    "(", "[", "{", "f'{", "lambda: ", "-", "not ", "class Model:\n  def forward(self): pass\n", "def get_inputs(): return []\n",
    "rtol=1" + "0" * 400,
    "nn.Dropout(1" + "0" * 400 + ")", "nn.Dropout(p=1e999)", "\\", "\f", "'''", "\0", "@", "async def f(): ", "match x:\n case ",
    "import transformers\n",
    "check_implementation = make_match_reference(ref_kernel, rtol=1" + "0" * 400 + ")\n", PYTHON_BOMB, "from . import x\n",
    "# coding: utf-16\n",
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    yield
    assert not hasattr(builtins, RAN)


def loads(load: Callable[[Path], Problem], path: Path) -> Problem | None:
    """The problem, which must be one that can be sent, shown, kept and judged; None where it is refused, in a sentence."""
    try:
        problem = load(path)
    except ProblemInvalid as invalid:
        assert invalid.path and invalid.message and "Traceback" not in invalid.message
        return None
    check_sound(problem)
    return problem


def check_sound(problem: Problem) -> None:
    spec = problem.spec
    job = wire.AdmissionJob(job_id="x", problem=spec)
    assert wire.encode(wire.decode(wire.encode(job))) == wire.encode(job)
    messages.problem_to_proto(problem).SerializeToString()
    with tempfile.TemporaryDirectory(prefix="gk-") as place:
        kept.keep(problem, Path(place))
        again = kept.read_kept(next(Path(place).iterdir()))
        assert wire.encode(wire.AdmissionJob(job_id="x", problem=again.spec)) == wire.encode(job)
    assert len(spec.inputs) + len(spec.outputs) <= gate.TENSOR_LIMIT
    assert spec.workloads and spec.trial_s > 0 and spec.trial_count > 0 and len(spec.digest) == 64
    assert len(spec.axes) <= gate.AXIS_LIMIT and len(set(spec.axes)) == len(spec.axes)
    for tensor in (*spec.inputs, *spec.outputs):
        assert len(tensor.shape) <= gate.RANK_LIMIT
        for workload in spec.workloads:
            sizes = [workload.axes[size] if isinstance(size, str) else size for size in tensor.shape]
            assert all(0 <= size < 2**31 for size in sizes)
    for workload in spec.workloads:
        tolerance = workload.tolerance or spec.tolerance
        assert math.isfinite(tolerance.atol) and math.isfinite(tolerance.rtol) and tolerance.atol >= 0 and tolerance.rtol >= 0
        assert all(0 <= (amount or 0) < 2**63 for amount in (workload.moved_bytes, workload.flops))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


# -- native --------------------------------------------------------------------------------------------------------------


def to_toml(data: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(str(key))} = {_toml(value)}\n" for key, value in data.items() if value is not None)


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return repr(value)
        case list():
            return "[" + ", ".join(_toml(one) for one in value if one is not None) + "]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(one)}" for key, one in value.items() if one is not None) + "}"
    return json.dumps(str(value))


def native_texts() -> st.SearchStrategy[str]:
    good = st.sampled_from(NATIVE).map(lambda path: (path / "problem.toml").read_text())
    changed = (
        good.map(tomllib.loads)
        .flatmap(lambda data: values.mutated(data, st.one_of(values.scalars(), likely())))
        .map(lambda data: to_toml(data) if isinstance(data, dict) else str(data))
    )
    return st.one_of(changed, changed, good.flatmap(lambda text: values.garbled(text, TOML_WORDS)), values.texts())


def likely() -> st.SearchStrategy[Any]:
    """What belongs into a problem, in places where it does not."""
    kinds = ("normal", "uniform", "integers", "heavy_tail", "constant", "index", "sorted", "permutation", "probabilities", "mixture")
    numbers = st.one_of(st.sampled_from(values.NUMBERS), st.sampled_from(values.FLOATS), st.integers(-5, 5))
    drawn = st.fixed_dictionaries(
        {"kind": st.sampled_from(kinds)},
        optional=dict.fromkeys(("low", "high", "scale", "scale_spread", "offset", "needles", "needle_factor", "weight"), numbers),
    )
    part = st.fixed_dictionaries({"kind": st.just("mixture"), "parts": st.lists(drawn, min_size=1, max_size=3)})
    tensor = st.fixed_dictionaries(
        {
            "name": st.sampled_from(("a", "b", "c", "out")),
            "shape": st.lists(st.one_of(st.integers(-1, 5), st.sampled_from(("n", "m"))), max_size=10),
        },
        optional={"dtype": st.sampled_from(("float32", "int8", "bool", "complex64")), "distribution": drawn},
    )
    text = st.sampled_from(("n", "m", "float16", "int8", "bool", "float32", "n * n", "1 // 0", "-" * 150 + "n", "n" + ".b" * 90, "cuda"))
    return st.one_of(drawn, part, tensor, st.lists(tensor, max_size=20), text, st.lists(numbers, max_size=20), st.lists(text, max_size=20))


@given(native_texts(), st.sampled_from(("def reference(a): return a\n", PYTHON_BOMB)))
@example("a = " + "[" * 2000, "")
@example("a = " + "1" * 5000, "")
def test_a_native_problem_is_read_or_refused(text: str, reference: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        put(Path(place) / "problem.toml", text)
        put(Path(place) / "reference.py", reference)
        loads(native.load, Path(place))


GOOD = (ROOT / "kernels_examples" / "vector_add" / "problem.toml").read_text()


def changed_native(**changes: Any) -> str:
    data = tomllib.loads(GOOD)
    data.update(changes)
    return to_toml(data)


def tensors(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "shape": ["n"], **fields}]


AXES = [f"a{index}" for index in range(17)]
FOUND_NATIVE = {
    "nested too deep": "a = " + "[" * 2000,
    "a number of 5000 digits": "a = " + "1" * 5000,
    "an infinite index": changed_native(inputs=tensors(dtype="int64", distribution={"kind": "index", "low": -math.inf, "high": 5})),
    "a negative size": changed_native(outputs=[{"name": "c", "shape": [-1]}]),
    "a size beyond every device": changed_native(outputs=[{"name": "c", "shape": [10**30]}]),
    "nine axes": changed_native(outputs=[{"name": "c", "shape": [1] * 9}]),
    "seventeen axes": changed_native(axes=AXES, inputs=[{"name": "a", "shape": AXES[:1]}], outputs=[{"name": "c", "shape": AXES[:1]}],
                                     workloads=[{"id": "w", "axes": dict.fromkeys(AXES, 1)}], moved_bytes=None, flops=None),
    "an axis twice": changed_native(axes=["n", "n"]),
    "a formula that can't be shown": changed_native(flops="-" * 190 + "n"),
}  # fmt: skip


@pytest.mark.parametrize("text", FOUND_NATIVE.values(), ids=FOUND_NATIVE)
def test_a_native_problem_that_was_not_refused_is(tmp_path: Path, text: str) -> None:
    """Found: the first ones and the last were other exceptions; the others were taken, and broke the judge's layout later."""
    put(tmp_path / "problem.toml", text)
    put(tmp_path / "reference.py", "")
    with pytest.raises(ProblemInvalid):
        native.load(tmp_path)


def test_the_problem_that_they_are_made_from_is_taken(tmp_path: Path) -> None:
    """The control."""
    put(tmp_path / "problem.toml", changed_native())
    put(tmp_path / "reference.py", PYTHON_BOMB)
    assert loads(native.load, tmp_path) is not None


# -- reference_kernels -----------------------------------------------------------------------------------------------------


def yaml_texts() -> st.SearchStrategy[str]:
    good = st.sampled_from(TASKS).map(lambda path: (path / "task.yml").read_text())
    changed = good.map(yaml.safe_load).flatmap(values.mutated).map(lambda data: yaml.safe_dump(data, sort_keys=False))
    words = st.lists(st.sampled_from(YAML_WORDS), min_size=1, max_size=4).map("\n".join)
    keyed = st.builds(
        lambda key, word: f"{key}: {word}\n",
        st.sampled_from(("lang", "tests", "config", "seed", "files", "a")),
        st.sampled_from(YAML_WORDS),
    )
    return st.one_of(changed, good.flatmap(lambda text: values.garbled(text, YAML_WORDS)), words, keyed, values.texts())


def python_texts(paths: list[Path]) -> st.SearchStrategy[str]:
    good = st.sampled_from(paths).map(lambda path: PYTHON_BOMB + path.read_text())
    return st.one_of(good.flatmap(lambda text: values.garbled(text, PYTHON_WORDS)), good)


@given(yaml_texts(), python_texts([path / "reference.py" for path in TASKS]))
def test_a_task_of_reference_kernels_is_read_or_refused(task: str, reference: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        folder = Path(place) / "task"
        for name in ("utils.py", "task.py", "eval.py", "submission.py", "template.py"):
            put(folder / name, "")
            put(Path(place) / "shared" / name, "")
        put(folder / "task.yml", task)
        put(folder / "reference.py", reference)
        loads(reference_kernels.load, folder)


@pytest.mark.parametrize("word", [word for word in YAML_WORDS if word not in ("%TAG ! x",)])
def test_yaml_that_its_own_reader_stumbles_over_is_refused(tmp_path: Path, word: str) -> None:
    """Found: PyYAML raises KeyError, IndexError, AttributeError and others of a value that its tag does not fit."""
    put(tmp_path / "task.yml", f"lang: {word}\n")
    with pytest.raises(ProblemInvalid):
        reference_kernels.load(tmp_path)


@given(yaml_texts())
def test_a_competition_is_read_or_refused(text: str) -> None:
    """Also what it names: long names, paths that lead elsewhere."""
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        path = Path(place) / "competition.yaml"
        put(path, text.replace("files:", "problems:").replace("source:", "directory:"))
        imports(path)


def imports(path: Path) -> None:
    try:
        for one in store.import_all(path):
            assert one.problem is not None or one.reason
    except ProblemInvalid as invalid:
        assert invalid.message


@pytest.mark.parametrize("name", ["x" * 300, "a\\0b", "../" * 300, "/", "~", "\\udcff"])
def test_a_competition_that_names_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    """Found: a name too long for the file system was an OSError."""
    put(tmp_path / "competition.yaml", f'name: x\nproblems:\n- directory: "{name}"\n')
    imports(tmp_path / "competition.yaml")


def test_a_tolerance_that_no_float_holds_is_refused_or_left_out(tmp_path: Path) -> None:
    """Found: OverflowError."""
    shutil.copytree(FIXTURES / "reference_kernels", tmp_path / "r")
    folder = tmp_path / "r" / "scaled_add"
    with (folder / "reference.py").open("a") as file:
        file.write(f"\ncheck_implementation = make_match_reference(ref_kernel, rtol=1{'0' * 400}, atol=1e999)\n")
    loads(reference_kernels.load, folder)


# -- kernelbench -----------------------------------------------------------------------------------------------------------


@given(
    python_texts(KERNELBENCH), st.sampled_from(("1_A.py", "é.py", "x" * 200 + ".py", "a b.py")), st.sampled_from(("fp32", "fp16", "int4"))
)
def test_a_file_of_kernelbench_is_read_or_refused(text: str, name: str, precision: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        put(Path(place) / name, text)
        kernelbench.matches(Path(place) / name)
        loads(lambda path: kernelbench.load(path, precision), Path(place) / name)


def test_a_dropout_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    """Found: OverflowError, of a probability of 401 digits."""
    text = "import torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self):\n        self.d = nn.Dropout(1" + "0" * 400 + ")\n"
    put(
        tmp_path / "1_A.py",
        text + "    def forward(self, x):\n        return x\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n",
    )
    loads(kernelbench.load, tmp_path / "1_A.py")


# -- flashinfer ------------------------------------------------------------------------------------------------------------


def json_texts(path: Path) -> st.SearchStrategy[str]:
    text = path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text()
    reference = st.one_of(st.just(PYTHON_BOMB + "def run(x, scale): pass"), st.sampled_from(PYTHON_WORDS), values.hostile_values())
    expression = st.sampled_from(
        ("-" * 150 + "n", "n" + ".b" * 90, "1/3", "n / 0", "f'{1}'", "(" * 90 + "n" + ")" * 90, "n if n else n", "2**8**8")
    )
    axis = st.builds(lambda one: {"type": "expr", "expression": one}, expression)
    stored = st.fixed_dictionaries({"type": st.just("safetensors"), "path": values.texts(), "tensor_key": values.texts()})
    changed = values.mutated(json.loads(text), st.one_of(values.hostile_values(), reference, axis, stored)).map(json.dumps)
    return st.one_of(changed, changed, values.garbled(text, ("NaN", "1e999", "[" * 500, "\\ud800", '"', "{", "1" * 5000)))


@given(json_texts(DEFINITION / "definition.json"), st.lists(json_texts(DEFINITION / "workload.jsonl"), max_size=2), st.booleans())
def test_a_definition_of_flashinfer_is_read_or_refused(definition: str, rows: list[str], both: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        folder = Path(place) / "d"
        shutil.copytree(DEFINITION, folder)
        if both or not rows:
            put(folder / "definition.json", definition)
        if rows:
            put(folder / "workload.jsonl", "\n".join(rows))
        loads(flashinfer.load, folder)


def test_the_name_of_a_definition_may_be_long(tmp_path: Path) -> None:
    """Found: the problem was read, and an OSError when it was kept in a file of that name."""
    shutil.copytree(DEFINITION, tmp_path / "d")
    data = json.loads((DEFINITION / "definition.json").read_text())
    put(tmp_path / "d" / "definition.json", json.dumps({**data, "name": "long_" * 100}))
    for line in (tmp_path / "d" / "workload.jsonl").read_text().splitlines():
        assert "definition" not in json.loads(line)
    assert loads(flashinfer.load, tmp_path / "d") is not None


# -- robust_kbench ---------------------------------------------------------------------------------------------------------


@given(json_texts(ROBUST / "config_forward.json"), st.one_of(st.none(), python_texts([ROBUST / "func_forward.py"])))
def test_a_task_of_robust_kbench_is_read_or_refused(config: str, source: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        folder = Path(place) / "t"
        shutil.copytree(ROBUST, folder)
        put(folder / "config_forward.json", config)
        if source is not None:
            put(folder / "func_forward.py", source)
        loads(robust_kbench.load, folder / "func_forward.py")


# -- expressions and headers -----------------------------------------------------------------------------------------------


def expressions() -> st.SearchStrategy[str]:
    parts = (
        "n",
        "m",
        "1",
        "(",
        ")",
        "+",
        "-",
        "*",
        "//",
        "%",
        "**",
        " ",
        "9" * 30,
        "not ",
        "~",
        ".a",
        "[0]",
        "f'{n}'",
        "lambda: ",
        "if",
        ",",
        "\n",
        "\0",
    )
    chains = st.builds(
        lambda part, count: part * count + "n",
        st.sampled_from(("-", "~", "not ", "(", "n+", "n**", "2**", "lambda:", "+", "-(")),
        st.integers(1, 199),
    )
    tails = st.builds(lambda part, count: "n" + part * count, st.sampled_from((".b", "[0]", "()", "+1", "**2", "-n")), st.integers(1, 99))
    return st.one_of(st.lists(st.sampled_from(parts), max_size=30).map("".join), chains, tails, values.texts())


@given(expressions())
@example("-" * 190 + "n")
@example("n" + ".b" * 98)
def test_an_expression_has_a_value_or_is_refused(text: str) -> None:
    try:
        assert 0 <= arithmetic.evaluate(text, {"n": 7, "m": 2**31 - 1}) <= arithmetic.LARGEST
    except ExpressionInvalid as invalid:
        assert str(invalid)


def headers() -> st.SearchStrategy[bytes]:
    entry = st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.one_of(st.sampled_from(("F32", "F64", "I8", "X")), values.hostile_values()),
            "shape": st.one_of(st.lists(st.one_of(st.integers(-2, 4), values.scalars()), max_size=3), values.hostile_values()),
            "data_offsets": st.one_of(st.lists(st.one_of(st.integers(-300, 300), values.scalars()), max_size=3), values.hostile_values()),
        },
    )
    header = st.one_of(
        st.dictionaries(st.sampled_from(("x", "y")), st.one_of(entry, entry, values.hostile_values()), max_size=2), values.hostile_values()
    )
    body = st.one_of(header.map(lambda data: json.dumps(data).encode()), st.binary(max_size=50))
    length = st.one_of(st.none(), st.none(), st.integers(0, 2**64 - 1))
    return st.builds(
        lambda one, count, data: (len(one) if count is None else count).to_bytes(8, "little") + one + data,
        body,
        length,
        st.binary(max_size=300),
    )


@given(headers())
@example(
    len(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,1e999]}}').to_bytes(8, "little")
    + b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,1e999]}}'
)
def test_a_header_of_safetensors_names_bytes_of_its_file_or_is_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="gp-") as place:
        path = Path(place) / "x.safetensors"
        path.write_bytes(content)
        try:
            found = flashinfer.find(path, "x")
        except flashinfer.SafetensorsInvalid as invalid:
            assert str(invalid)
            return
        data_begin = 8 + int.from_bytes(content[:8], "little")
        assert data_begin <= found.begin <= found.end <= len(content)
        assert found.end - found.begin == math.prod(found.shape) * flashinfer.ITEM_BYTES[found.dtype]


def test_these_headers_break_a_careless_reader() -> None:
    """The control: a reader that takes what a header says ends otherwise, or outside of the file."""

    def breaks(content: bytes) -> bool:
        count = int.from_bytes(content[:8], "little")
        try:
            begin, end = json.loads(content[8 : 8 + count])["x"]["data_offsets"]
            return not 0 <= int(begin) <= int(end) <= len(content) - 8 - count
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            return False
        except OverflowError:
            return True

    assert find(headers(), breaks, settings=values.FINDING)
