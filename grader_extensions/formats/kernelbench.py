"""The kernelbench format: one Python file with `Model`, `get_inputs` and `get_init_inputs`.  Parsed, never executed.

A kernel for it is a `ModelNew`, made and called as `Model` is, which gets Model's weights by name; or a function in a compiled language,
which gets them as inputs.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from grader.errors import ProblemInvalid
from grader.formats.inside import require_inside
from grader.model import NewSubmission, Problem
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments
from grader_extensions.formats.arguments import with_arguments
from grader_extensions.formats.problem_files import bound_names, digest_of, imported_names, parse_python, read_text
from sandbox.protocol import wire
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import PYTHON, without_model

LEAST_FLOOR, FLOOR_FACTOR, LARGEST_FLOOR = 5e-2, 5.0, 0.25
_SHOWN_CHARS = 40  # of a value in a message


def with_constants(source: str, values: Mapping[str, str]) -> str:
    """The source with these values (as `literal` writes them) for constants that it assigns; other names are ignored.

    Only the assignments change: comments, line numbers and everything else stay as they are, and what is computed from a constant follows.
    """
    lines = source.encode().split(b"\n")
    for name, value in reversed(_assignments(ast.parse(source))):  # from the end, so that earlier positions stay right
        assert value.end_lineno is not None
        if name in values:
            before, after = lines[value.lineno - 1][: value.col_offset], lines[value.end_lineno - 1][value.end_col_offset :]
            lines[value.lineno - 1 : value.end_lineno] = [before + values[name].encode() + after]
    return b"\n".join(lines).decode()


def _assignments(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """The values of names that nothing else in the module's own scope binds, such as a loop or an import."""
    assigned = [pair for statement in tree.body for pair in _assigned(statement)]
    here, bound = Counter(name for name, _ in assigned), Counter(bound_names(tree))
    return [(name, value) for name, value in assigned if here[name] == bound[name]]


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.Assign(
            targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)], value=ast.Tuple(elts=values) | ast.List(elts=values)
        ) if len(targets) == len(values) and not any(isinstance(element, ast.Starred) for element in (*targets, *values)):
            yield from ((target.id, value) for target, value in zip(targets, values, strict=True) if isinstance(target, ast.Name))


NAME = "kernelbench"
LAYOUT = "a Python file with Model, get_inputs and get_init_inputs"
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


# What floating tensors and weights are cast to, and the tolerance that goes with it. The budget is for outputs that are small next to atol,
# where zeros would pass: see `kernelbench_reference.py`.
PRECISIONS = {
    "fp32": ("float32", wire.Tolerance(atol=1e-4, rtol=1e-4, budget_floor=1e-2)),
    "fp16": ("float16", wire.Tolerance(atol=1e-2, rtol=1e-2, budget_floor=5e-2)),
    "bf16": ("bfloat16", wire.Tolerance(atol=1e-2, rtol=1e-2, budget_floor=5e-2)),
}


def matches(path: Path) -> bool:
    """Return whether a problem of this format, or what was meant as one, lies at path."""
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(SOURCE_LIMIT_BYTES)
    except OSError:
        return True  # load says why
    return is_meant(head)


def is_meant(head: bytes) -> bool:
    """Return whether a file that begins so is a problem of this format, or was meant as one."""
    return re.search(rb"^(class Model\b|def get_(init_)?inputs\b)", head, re.MULTILINE) is not None


def load(path: Path, *, root: Path | None = None, adjustments: Adjustments = UNCHANGED) -> Problem:
    """Read the problem in the file path. root: the set, outside of which no file is read; None: the file's directory."""
    require_inside(path, root or path.parent, path)
    precision = DEFAULT_PRECISION if adjustments.precision is None else adjustments.precision
    if precision not in PRECISIONS:
        raise ProblemInvalid(str(path), f"precision {precision!r} is not known; take one of: {', '.join(PRECISIONS)}")
    source = read_text(path, SOURCE_LIMIT_BYTES, LAYOUT)
    if adjustments.constants:
        known_constants = _settable(path, source)
        if unknown := [name for name in adjustments.constants if name not in known_constants]:
            there = ", ".join(f"{name} = {value}" for name, value in known_constants.items()) or "nothing"
            raise ProblemInvalid(str(path), f"assigns no constant {unknown[0]!r} at its top level; it assigns {there}")
        source = with_constants(source, adjustments.constants)
    _check(path, parse_python(path, source, path.name))
    problem_id, (dtype, tolerance) = problem_id_of(path, precision), PRECISIONS[precision]
    tolerance = _adjusted_tolerance(tolerance, adjustments)
    set_here = ", ".join(f"{name} = {value}" for name, value in adjustments.constants.items())
    statement = _STATEMENT.format(
        weights="" if adjustments.keep_weights else _DRAWN_WEIGHTS,
        dtype=dtype,
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        share=tolerance.budget_floor,
        more=(_LOWER_PRECISION if tolerance.allow_lower_precision else "") + (f"\n\nSet at import: {set_here}." if set_here else ""),
    )
    return Problem(
        problem_id=problem_id,
        title=_title(path, precision, adjustments),
        languages=(PYTHON, *compiled_languages()),
        spec=_spec(problem_id, source, dtype, tolerance, adjustments),
        statement=statement + source,
    )


def with_calling_convention(spec: wire.ProblemSpec, new_submission: NewSubmission) -> wire.ProblemSpec:
    """The spec as a submission's entry takes it: one that is not a Python class gets the weights as inputs."""
    return spec if new_submission.language == PYTHON else without_model(spec)


def with_description(problem: Problem, description: wire.Described) -> Problem:
    """The problem with what was learned of its arguments, for people. Its digest stays: the judge learns them again."""
    spec, compiled = with_arguments(problem.spec, description), compiled_languages()
    names = {tensor.name for tensor in description.inputs}
    if strides := ", ".join(f"{name} has strides {values}" for name, values in description.strides.items() if name in names):
        text = f"Inputs that are not contiguous: {strides}, in elements. A raw kernel gets a pointer to the first.\n\n"
        problem = replace(problem, statement=text + problem.statement)
    if description.obstacle:
        text = f"Only Python modules can be submitted: the model can't be given to a compiled entry, for {description.obstacle}.\n\n"
        return replace(problem, spec=spec, languages=(PYTHON,), statement=text + problem.statement)
    return replace(problem, spec=spec, languages=(PYTHON, *compiled))


def compiled_languages() -> tuple[str, ...]:
    """The languages whose entry is a function that gets the weights too."""
    return tuple(language for language in languages() if language != PYTHON)


def settable(path: Path) -> dict[str, str]:
    """The constants that `Adjustments.constants` may set in the file path, with the text of their values."""
    return _settable(path, read_text(path, SOURCE_LIMIT_BYTES, LAYOUT))


def _settable(path: Path, source: str) -> dict[str, str]:
    assignments = _assignments(parse_python(path, source, path.name))
    texts = {name: ast.unparse(value) for name, value in assignments}
    return {name: text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..." for name, text in texts.items()}


def _adjusted_tolerance(tolerance: wire.Tolerance, adjustments: Adjustments) -> wire.Tolerance:
    """Return what counts as right. The budget's floor follows: it must not reject what the wider rule allows, and zeros must stay wrong."""
    wanted, floor = adjustments.tolerance, tolerance.budget_floor
    if wanted is not None:
        floor = max(floor, min(FLOOR_FACTOR * wanted, LARGEST_FLOOR))
    if adjustments.allow_lower_precision:
        floor = max(floor, LEAST_FLOOR)
    atol, rtol = (tolerance.atol, tolerance.rtol) if wanted is None else (wanted, wanted)
    return replace(tolerance, atol=atol, rtol=rtol, budget_floor=floor, allow_lower_precision=adjustments.allow_lower_precision)


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


def _check(path: Path, tree: ast.Module) -> None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if CLASS not in classes:
        raise ProblemInvalid(str(path), f"has no class {CLASS}; define `class {CLASS}(nn.Module)` with a method {METHOD}")
    lineage = [classes[CLASS]]  # with the classes of this file that it is made from
    for ancestor in lineage:
        bases = [classes[base.id] for base in ancestor.bases if isinstance(base, ast.Name) and base.id in classes]
        lineage += [base for base in bases if base not in lineage]
    if not any(isinstance(node, ast.FunctionDef) and node.name == METHOD for ancestor in lineage for node in ancestor.body):
        raise ProblemInvalid(str(path), f"line {classes[CLASS].lineno}: class {CLASS} has no method {METHOD}; define it")
    for name, purpose in ((INPUTS, f"{METHOD} is called with"), (ARGUMENTS, f"{CLASS} is made with")):
        if name not in functions:
            raise ProblemInvalid(str(path), f"has no function {name}; define it, returning the list of what {purpose} (it may be empty)")
        needed = functions[name].args
        if len(needed.posonlyargs) + len(needed.args) > len(needed.defaults) or None in needed.kw_defaults:
            raise ProblemInvalid(str(path), f"line {functions[name].lineno}: {name} takes arguments; it is called without any")
    for name in imported_names(tree.body):
        if (package := name.split(".")[0]) in _DOWNLOADS:
            text = f"imports {package}, whose models are downloaded or are not part of torch; write the model with torch.nn"
            raise ProblemInvalid(str(path), text)


def _spec(problem_id: str, source: str, dtype: str, tolerance: wire.Tolerance, adjustments: Adjustments) -> wire.ProblemSpec:
    arguments = {"dtype": dtype, **({"keep_weights": True} if adjustments.keep_weights else {})}
    canonical = {
        "format": NAME,
        "problem_id": problem_id,
        "reference": source,
        "dtype": dtype,
        # Without what is not allowed: a new key does not make old problems other ones.
        "tolerance": {key: value for key, value in asdict(tolerance).items() if value is not False},
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
        tolerance=tolerance,
        reference=source,
        trial_count=TRIAL_COUNT,
        digest=digest_of(canonical),
        convention=wire.Convention.MODEL,
    )
