"""The kernelbench format: one Python file with `Model`, `get_inputs` and `get_init_inputs`.  Parsed, never executed.

A kernel for it is a `ModelNew`, made and called as `Model` is, which gets Model's weights by name; or a function in a compiled language,
which gets them as inputs.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from grader.errors import ProblemInvalid
from grader.formats import dropout, module_constants
from grader.formats.adjustments import FLOOR_FACTOR, LARGEST_FLOOR, LEAST_FLOOR, UNCHANGED, Adjustments
from grader.formats.inside import require_inside
from grader.model import NewSubmission, Problem
from sandbox.protocol import wire
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import PYTHON, with_arguments, without_model

NAME = "kernelbench"
LAYOUT = "a Python file with Model, get_inputs and get_init_inputs"
ACCEPTS_PRECISION = True
ACCEPTS_ADJUSTMENTS = True
EXPLAINS_SUFFIX = ".py"
SOURCE_LIMIT_BYTES = 256 * 1024
ENTRY, CLASS, METHOD, INPUTS, ARGUMENTS = "ModelNew", "Model", "forward", "get_inputs", "get_init_inputs"
TRIAL_COUNT = 5  # KernelBench's own
TITLE_CHARS = 180
DEFAULT_PRECISION = "fp32"
_DOWNLOADS = ("transformers", "diffusers", "timm", "torchvision")
_STATEMENT = f"""\
Write a class {ENTRY} that does what {CLASS} below does, faster. It is made with the values of {ARGUMENTS}(), and gets the weights
of {CLASS} where its parameters have the same names. It is called with tensors as those of {INPUTS}(), of dtype {{dtype}} where
they are floating.{{weights}}

In a compiled language write a function instead. It gets the inputs of {METHOD}, then what {CLASS} keeps (its state_dict(), the same in
every run), then its outputs and all sizes.

An element is right within {{atol:g}} + {{rtol:g}} * |reference|. An output that is small compared with this tolerance has to be right
within {{share:.0%}} of its own size as well.{{more}}

"""
_DRAWN_WEIGHTS = """ Weights that start as one constant, such as the ones and zeros of a norm,
have other values here: keep them as parameters, or as buffers running_mean and running_var, and read them."""
_LOWER_PRECISION = " Lower precision is allowed: half precision or TF32 inside is right if the result is."


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """What floating tensors and weights are cast to, and the tolerance that goes with it.

    The budget is for outputs that are small next to atol, where zeros would pass: see `sandbox/judge/references/kernelbench.py`.
    """

    dtype: str
    tolerance: wire.Tolerance


PRECISIONS = {
    "fp32": Precision(dtype="float32", tolerance=wire.Tolerance(atol=1e-4, rtol=1e-4, budget_floor=1e-2)),
    "fp16": Precision(dtype="float16", tolerance=wire.Tolerance(atol=1e-2, rtol=1e-2, budget_floor=5e-2)),
    "bf16": Precision(dtype="bfloat16", tolerance=wire.Tolerance(atol=1e-2, rtol=1e-2, budget_floor=5e-2)),
}


def matches(path: Path) -> bool:
    """Whether a problem of this format, or what was meant as one, lies at path."""
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(SOURCE_LIMIT_BYTES)
    except OSError:
        return True  # load says why
    return re.search(rb"^(class Model\b|def get_(init_)?inputs\b)", head, re.MULTILINE) is not None


def load(path: Path, precision: str = DEFAULT_PRECISION, *, root: Path | None = None, adjustments: Adjustments = UNCHANGED) -> Problem:
    """Read the problem in the file path, for floating tensors of this precision.

    root: the set, outside of which no file is read; None: the file's directory.
    """
    require_inside(path, root or path.parent, path)
    if precision not in PRECISIONS:
        raise ProblemInvalid(str(path), f"precision {precision!r} is not known; take one of: {', '.join(PRECISIONS)}")
    source = _adjusted_source(path, adjustments)
    _check(path, _parse(path, source))
    problem_id, dtype = problem_id_of(path, precision), PRECISIONS[precision].dtype
    tolerance = adjusted_tolerance(PRECISIONS[precision].tolerance, adjustments)
    return Problem(
        problem_id=problem_id,
        title=_title(path, precision, adjustments),
        languages=(PYTHON, *compiled_languages()),
        spec=_spec(problem_id, source, Precision(dtype=dtype, tolerance=tolerance), adjustments),
        statement=_statement(dtype, tolerance, adjustments) + source,
    )


def with_calling_convention(spec: wire.ProblemSpec, new: NewSubmission) -> wire.ProblemSpec:
    """The spec as a submission's entry takes it: one that is not a Python class gets the weights as inputs."""
    return spec if new.language == PYTHON else without_model(spec)


def with_description(problem: Problem, found: wire.Described) -> Problem:
    """The problem with what was learned of its arguments, for people. Its digest stays: the judge learns them again."""
    spec, compiled = with_arguments(problem.spec, found), compiled_languages()
    problem = replace(problem, statement=_strides_sentence(found) + problem.statement)
    if found.obstacle:
        text = f"Only Python modules can be submitted: the model can't be given to a compiled entry, for {found.obstacle}.\n\n"
        return replace(problem, spec=spec, languages=(PYTHON,), statement=text + problem.statement)
    return replace(problem, spec=spec, languages=(PYTHON, *compiled))


def _strides_sentence(found: wire.Described) -> str:
    names = {one.name for one in found.inputs}
    strides = ", ".join(f"{name} has strides {values}" for name, values in found.strides.items() if name in names)
    return f"Inputs that are not contiguous: {strides}, in elements. A raw kernel gets a pointer to the first.\n\n" if strides else ""


def compiled_languages() -> tuple[str, ...]:
    """The languages whose entry is a function that gets the weights too."""
    return tuple(one for one in languages() if one != PYTHON)


def settable(path: Path) -> dict[str, str]:
    """The constants that `Adjustments.constants` may set in the file path, with the text of their values."""
    source = _read(path)
    _parse(path, source)
    return module_constants.constants(source)


def adjusted_tolerance(own: wire.Tolerance, adjustments: Adjustments) -> wire.Tolerance:
    """What counts as right. The budget's floor follows: it must not reject what the wider rule allows, and zeros must stay wrong."""
    wanted, floor = adjustments.tolerance, own.budget_floor
    if wanted is not None:
        floor = max(floor, min(FLOOR_FACTOR * wanted, LARGEST_FLOOR))
    if adjustments.allow_lower_precision:
        floor = max(floor, LEAST_FLOOR)
    atol, rtol = (own.atol, own.rtol) if wanted is None else (wanted, wanted)
    return replace(own, atol=atol, rtol=rtol, budget_floor=floor, allow_lower_precision=adjustments.allow_lower_precision)


def _adjusted_source(path: Path, adjustments: Adjustments) -> str:
    source = _read(path)
    if not adjustments.constants:
        return source
    _parse(path, source)
    known = module_constants.constants(source)
    if unknown := [name for name in adjustments.constants if name not in known]:
        there = ", ".join(f"{name} = {value}" for name, value in known.items()) or "nothing"
        raise ProblemInvalid(str(path), f"assigns no constant {unknown[0]!r} at its top level; it assigns {there}")
    return module_constants.with_constants(source, adjustments.constants)


def _statement(dtype: str, tolerance: wire.Tolerance, adjustments: Adjustments) -> str:
    set_here = ", ".join(f"{name} = {value}" for name, value in adjustments.constants.items())
    more = (_LOWER_PRECISION if tolerance.allow_lower_precision else "") + (f"\n\nSet at import: {set_here}." if set_here else "")
    weights = "" if adjustments.keep_weights else _DRAWN_WEIGHTS
    return _STATEMENT.format(
        weights=weights, dtype=dtype, atol=tolerance.atol, rtol=tolerance.rtol, share=tolerance.budget_floor, more=more
    )


def problem_id_of(path: Path, precision: str = DEFAULT_PRECISION) -> str:
    """23_Softmax.py is kb_23_softmax, and kb_23_softmax_fp16 in fp16."""
    slug = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_")
    if not slug:
        raise ProblemInvalid(str(path), "has no letter or digit in its name; rename it to N_Name.py")
    suffix = "" if precision == DEFAULT_PRECISION else f"_{precision}"
    return f"kb_{slug}"[: 63 - len(suffix)] + suffix


def _title(path: Path, precision: str, adjustments: Adjustments) -> str:
    words = " ".join(path.stem.replace("_", " ").split())
    notes = [] if precision == DEFAULT_PRECISION else [precision]
    notes += [f"{name} = {value}" for name, value in adjustments.constants.items()]
    notes += [] if adjustments.tolerance is None else [f"tolerance {adjustments.tolerance:g}"]
    notes += ["lower precision allowed"] if adjustments.allow_lower_precision else []
    notes += ["weights kept"] if adjustments.keep_weights else []
    return f"{words[:TITLE_CHARS]} ({', '.join(notes)[:TITLE_CHARS]})" if notes else words[:TITLE_CHARS]


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise ProblemInvalid(str(path), "is not a file; a kernelbench problem is one Python file")
        if (size := path.stat().st_size) > SOURCE_LIMIT_BYTES:
            raise ProblemInvalid(
                str(path), f"has {size:,} bytes, over the {SOURCE_LIMIT_BYTES:,} allowed; leave out what is not the problem"
            )
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ProblemInvalid(str(path), f"is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ProblemInvalid(str(path), f"can't be read: {error.strerror}; check its permissions") from None


def _parse(path: Path, source: str) -> ast.Module:
    try:
        return ast.parse(source, path.name)
    except SyntaxError as error:
        raise ProblemInvalid(str(path), f"line {error.lineno}: is not Python: {error.msg}; fix the line") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemInvalid(str(path), f"can't be parsed as Python: {error or type(error).__name__}; write it more simply") from None


def _check(path: Path, tree: ast.Module) -> None:
    """Raise ProblemInvalid where a part is missing, or where the file is one that surely can't be judged."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if CLASS not in classes:
        raise ProblemInvalid(str(path), f"has no class {CLASS}; define `class {CLASS}(nn.Module)` with a method {METHOD}")
    if not _has_method(classes[CLASS], classes):
        raise ProblemInvalid(str(path), f"line {classes[CLASS].lineno}: class {CLASS} has no method {METHOD}; define it")
    for name, what in ((INPUTS, f"{METHOD} is called with"), (ARGUMENTS, f"{CLASS} is made with")):
        if name not in functions:
            raise ProblemInvalid(str(path), f"has no function {name}; define it, returning the list of what {what} (it may be empty)")
        needed = functions[name].args
        if len(needed.posonlyargs) + len(needed.args) > len(needed.defaults) or None in needed.kw_defaults:
            raise ProblemInvalid(str(path), f"line {functions[name].lineno}: {name} takes arguments; it is called without any")
    for node in tree.body:
        if (package := _downloader(node)) is not None:
            text = f"imports {package}, whose models are downloaded or are not part of torch; write the model with torch.nn"
            raise ProblemInvalid(str(path), f"line {node.lineno}: {text}")
    if (found := dropout.certain(tree)) is not None:
        raise ProblemInvalid(str(path), f"line {found.line}: {found.sentence}")


def _has_method(of: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether the class, or one of this file that it is made from, defines forward."""
    seen, waiting = set[str](), [of]
    while waiting:
        one = waiting.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        if any(isinstance(node, ast.FunctionDef) and node.name == METHOD for node in one.body):
            return True
        waiting += [classes[base.id] for base in one.bases if isinstance(base, ast.Name) and base.id in classes]
    return False


def _downloader(node: ast.stmt) -> str | None:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return next((root for root in (name.split(".")[0] for name in names) if root in _DOWNLOADS), None)


def _spec(problem_id: str, source: str, precision: Precision, adjustments: Adjustments) -> wire.ProblemSpec:
    arguments = {"dtype": precision.dtype, **({"keep_weights": True} if adjustments.keep_weights else {})}
    canonical = {
        "format": NAME,
        "problem_id": problem_id,
        "reference": source,
        "dtype": precision.dtype,
        # Without what is not allowed: a new key does not make old problems other ones.
        "tolerance": {key: value for key, value in asdict(precision.tolerance).items() if value is not False},
        "trials": TRIAL_COUNT,
        "weights": "kept" if adjustments.keep_weights else "drawn",
    }
    return wire.ProblemSpec(
        problem_id=problem_id,
        format=NAME,
        entry=ENTRY,
        inputs=(),
        outputs=(),
        workloads=(wire.Workload(workload_id="default", axes={}, arguments=json.dumps(arguments)),),
        tolerance=precision.tolerance,
        reference=source,
        trial_count=TRIAL_COUNT,
        digest=hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest(),
        convention=wire.Convention.MODEL,
    )
