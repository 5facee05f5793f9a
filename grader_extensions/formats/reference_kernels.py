"""The reference_kernels format: a directory with task.yml and the files that it lists, or a competition's yaml that names such directories.

Nothing is executed. reference.py and what it imports go to the judge as text; their eval.py is left out. A case's `tests` are for every
device, its `benchmarks` for a GPU where there are tests too, for they are of a GPU's size. A submission may import task.py, utils.py and
what these import. Every other file may be a part of the reference, so it is for the judge only.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import Field, model_validator

from grader.errors import ProblemInvalid
from grader.formats.inside import require_inside
from grader.formats.validation_messages import StrictModel
from grader.model import Problem, problem_id_of
from grader_extensions.formats import problem_files
from grader_extensions.formats.problem_files import digest_of, parse_python, read_text, reported
from sandbox.protocol import wire

REFERENCE, PUBLIC = "reference.py", ("task.py", "utils.py")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-8}  # make_match_reference's own
SHARED = "../utils.py"  # where GPU MODE's folders have what several share
LARGEST_TOLERANCE = 1e300  # for a number that no float holds


def public(trees: Mapping[str, ast.Module]) -> list[str]:
    """The names of the files that a submission may import: of PUBLIC those that there are, and what they import."""
    names, waiting = set[str](), [name for name in PUBLIC if name in trees]
    while waiting:
        name = waiting.pop()
        if name != REFERENCE and name not in names:
            names.add(name)
            imported = {module.partition(".")[0] for module in problem_files.imported_names(ast.walk(trees[name]))}
            waiting += [file for file in trees if file.removesuffix(".py") in imported]
    return sorted(names)


def tolerance(tree: ast.Module) -> wire.Tolerance:
    """Return the bounds in `check_implementation = make_match_reference(ref_kernel, rtol=..., atol=...)`, for display."""
    bounds = dict(TOLERANCE)
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="check_implementation")], value=ast.Call(keywords=keywords)):
                for keyword in keywords:
                    if keyword.arg in bounds and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, (int, float)):
                        bounds[keyword.arg] = min(max(keyword.value.value, 0), LARGEST_TOLERANCE) * 1.0
    return wire.Tolerance(rtol=bounds["rtol"], atol=bounds["atol"], budget_factor=None)


NAME = "reference_kernels"
LAYOUT = "a directory with task.yml, or a yaml with `problems:` that names such"
SECRET_SIZES = True
FILE = "task.yml"
LANGUAGES = ("python",)
ENTRY = "custom_kernel"
SUBMISSION = "@SUBMISSION@"
FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")
SEED, LARGEST = "seed", 2**31 - 1
YAML_LIMIT_BYTES, FILE_LIMIT_BYTES = 256 * 1024, 512 * 1024
LONGEST_TRIAL_S = 30.0

_Scalar = bool | int | Annotated[float, Field(allow_inf_nan=False)] | Annotated[str, Field(max_length=1000)]
_Case = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")], _Scalar | Annotated[list[_Scalar], Field(max_length=256)]]
_Timeout = Annotated[int, Field(gt=0, le=24 * 3600)]


class _File(StrictModel):
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$")]
    source: Annotated[str, Field(min_length=1, max_length=1000)]


class _Config(StrictModel):
    main: str


class _TaskFile(StrictModel):
    files: list[_File] = Field(min_length=1, max_length=64)
    lang: Literal["py", "cu"]
    config: _Config | dict[str, Any]
    description: str = ""
    templates: dict[Literal["CUDA", "Python", "Triton", "HIP", "CuteDSL"], str] = Field(default={})
    tests: list[_Case] = Field(default=[], max_length=256)
    benchmarks: list[_Case] = Field(default=[], max_length=256)
    test_timeout: _Timeout = 180
    benchmark_timeout: _Timeout = 180
    ranked_timeout: _Timeout = 180
    ranking_by: Literal["last", "mean", "geom"] = "last"
    multi_gpu: bool = False
    seed: int | None = None
    libraries: list[str] = Field(default=[])
    gpus: list[str] = Field(default=[])

    @model_validator(mode="after")
    def _can_be_judged(self) -> _TaskFile:
        if self.lang != "py":
            raise ValueError("lang 'cu' has a reference in C++, which is not judged here; only 'py' is")
        if self.multi_gpu or any("world_size" in case for case in (*self.tests, *self.benchmarks)):
            raise ValueError("needs several GPUs (multi_gpu, world_size); a kernel gets one, so multi_gpu problems are not judged here")
        if not isinstance(self.config, _Config):
            raise ValueError("config of lang 'py' has the key main, and no other")
        if not self.tests and not self.benchmarks:
            raise ValueError("there are neither tests nor benchmarks; add a case")
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError("files has a name twice; rename one")
        if REFERENCE not in names:
            raise ValueError(f"files has no {REFERENCE}; add it, with {', '.join(FUNCTIONS)}")
        for kind, cases in (("tests", self.tests), ("benchmarks", self.benchmarks)):
            for index, case in enumerate(cases):
                for key, value in case.items():
                    numbers = value if isinstance(value, list) else [value]
                    if any(type(number) is int and abs(number) > LARGEST for number in numbers) and key != SEED:
                        raise ValueError(f"{kind}.{index}.{key} is over 2 ** 31 - 1; no device holds that")
        return self


class _Listed(StrictModel):
    directory: Annotated[str, Field(min_length=1, max_length=1000)]
    name: str | None = None
    deadline: Any = None
    gpus: list[str] = Field(default=[])


class _ListedProblems(StrictModel):
    name: str
    deadline: Any = None
    description: str = ""
    problems: list[_Listed] = Field(min_length=1, max_length=256)


_Model = TypeVar("_Model", bound=StrictModel)


def matches(path: Path) -> bool:
    """Return whether a problem of this format lies at path: a directory with task.yml, or that file."""
    return (path / FILE).is_file() or (path.name == FILE and path.is_file())


def members(path: Path) -> tuple[Path, ...]:
    """The directories that a competition's yaml names; () where path is none, such as a yaml without `problems:`."""
    if path.suffix not in (".yaml", ".yml") or path.name == FILE or not path.is_file():
        return ()
    try:
        text = path.read_text("utf-8") if path.stat().st_size <= YAML_LIMIT_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ()
    if re.search(r"^problems\s*:", text, re.MULTILINE) is None:  # what has such a line and can't be read is a list that is wrong
        return ()
    competition = _parsed(path, _ListedProblems)
    directories = tuple(path.parent / problem.directory for problem in competition.problems)
    for directory in directories:
        require_inside(directory, path.parent, path)
    return directories


def unusable(problem: Problem) -> str:
    """Why no judge here can run the reference: a package that it imports is missing; "" where none is."""
    texts = {name.removesuffix(".py"): text for name, text in json.loads(problem.spec.reference).items()}
    reason = problem_files.unusable(texts, REFERENCE.removesuffix(".py"), FUNCTIONS)
    return reason and f"{reason}, or list its file under `files`"


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem in directory path. root: the set, outside of which no file is read; None: the directory itself, which its owner
    names, and SHARED."""
    task_path = path if path.name == FILE else path / FILE
    above = task_path.parent.resolve().parent
    shares = root is None and (above / PUBLIC[1]).is_file() and not (above / PUBLIC[1]).is_symlink()
    root = root or task_path.parent
    require_inside(task_path, root, task_path)
    task = _parsed(task_path, _TaskFile)
    assert isinstance(task.config, _Config)
    left_out = (task.config.main, "eval.py")  # their harness, which the judge does not need; nor does it the submission
    executed = [file for file in task.files if file.source != SUBMISSION and file.name.endswith(".py") and file.name not in left_out]
    roots = {file.name: above if shares and file.source == SHARED else root for file in executed}
    paths = {file.name: require_inside(task_path.parent / file.source, roots[file.name], task_path) for file in executed}
    texts = {name: read_text(path, FILE_LIMIT_BYTES, LAYOUT) for name, path in paths.items()}
    trees = {name: parse_python(task_path.parent / name, text) for name, text in texts.items()}
    reference = trees[REFERENCE]
    names = set(problem_files.bound_names(reference))
    if missing := [name for name in FUNCTIONS if name not in names]:
        near = [f"; it has {close[0]!r} for {name!r}" for name in missing if (close := get_close_matches(name, names, n=1, cutoff=0.6))]
        text = f"defines no {', '.join(map(repr, missing))}{''.join(near)}; define {'them' if len(missing) > 1 else 'it'} at the top level"
        raise ProblemInvalid(str(task_path.parent / REFERENCE), f"{text}. A task that only its own eval.py can run is not judged here")
    modules = {name: texts[name] for name in public(trees)}
    name = task_path.resolve().parent.name
    problem_id = problem_id_of(name)
    spec = replace(_spec(problem_id, task, texts, reference), modules=modules)
    statement = f"{task.description}\nA submission can import {' and '.join(modules)}.\n" if modules else task.description
    return Problem(problem_id=problem_id, title=name, languages=LANGUAGES, spec=spec, statement=statement)


def _spec(problem_id: str, task: _TaskFile, texts: dict[str, str], reference: ast.Module) -> wire.ProblemSpec:
    tests = [_workload(f"test-{index}", case, "") for index, case in enumerate(task.tests)]
    kind = "cuda" if tests else ""
    workloads = (*tests, *(_workload(f"benchmark-{index}", case, kind) for index, case in enumerate(task.benchmarks)))
    canonical = {"format": NAME, "id": problem_id, "files": texts, "tests": task.tests, "benchmarks": task.benchmarks}
    reference_text = json.dumps(texts, sort_keys=True)
    files_digest = digest_of(texts)  # the check is code: two versions of the files can be two rules
    return wire.ProblemSpec(
        problem_id=problem_id,
        format=NAME,
        entry=ENTRY,
        inputs=(),
        outputs=(),
        workloads=workloads,
        tolerance=tolerance(reference),
        reference=reference_text,
        axes=problem_files.shared_axes(workloads),
        trial_s=min(LONGEST_TRIAL_S, float(task.test_timeout)),
        digest=digest_of(canonical),
        convention=wire.Convention.DATA,
        rule=f"what check_implementation of {REFERENCE} accepts (files {files_digest[:12]})",
    )


def _workload(workload_id: str, case: _Case, kind: str) -> wire.Workload:
    axes = {key: value for key, value in case.items() if type(value) is int and value >= 0 and key != SEED}
    return wire.Workload(workload_id=workload_id, axes=axes, device_kind=kind, arguments=json.dumps({"case": case}))


def _parsed(path: Path, model: type[_Model]) -> _Model:
    text = read_text(path, YAML_LIMIT_BYTES, f"{FILE} and the files that it lists")
    with reported(path, text, model=model):
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ProblemInvalid(str(path), f"is not YAML: {' '.join(str(error).split())}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # PyYAML's, of a value that no tag fits
            raise ValueError(f"can't be read: a value is not what its tag says ({type(error).__name__}: {error}); fix the value") from None
        return model.model_validate(value)
