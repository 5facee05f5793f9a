"""The page on `problem.toml` says what the code takes, and its example loads."""

import dataclasses
import re
import tomllib
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from grader.formats import native
from sandbox.protocol import wire

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = "problems.md"
MODELS = [
    (PROBLEMS, "problem", native._ProblemFile),
    (PROBLEMS, "tensor", native._TensorTable),
    (PROBLEMS, "distribution", native.DistributionSchema),
    (PROBLEMS, "tolerance", native._ToleranceTable),
    (PROBLEMS, "workload", native._WorkloadTable),
    (PROBLEMS, "sweep", native._SweepRange),
]
PARTS = [  # models whose fields are those of one above
    (native._Output, native._TensorTable),
    (native._OwnTolerance, native._ToleranceTable),
    (native.Part, native.DistributionSchema),
]


def page(name):
    return (ROOT / "docs" / name).read_text()


def rows(name, of):
    """Type and default of each key, as the page's table has them."""
    cells = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in page(name).splitlines() if line.startswith(f"| {of} | ")]
    assert all(len(row) == 5 for row in cells)
    return {key.strip("`"): (kind, default) for _, key, kind, default, _ in cells}


def block(name, language):
    """The page's one fenced block of this language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    return text


def fields(model):
    """Every field with its default; what problem.toml may leave to the judge's side has the default that it has there."""
    there = {field.name: field.default for field in dataclasses.fields(wire.Distribution)} if model is native.DistributionSchema else {}
    return {key: field.default if field.default is not None else there.get(key) for key, field in model.model_fields.items()}


@pytest.mark.parametrize(("name", "of", "model"), MODELS)
def test_every_field_has_a_row_and_no_row_is_of_anything_else(name, of, model):
    """A key that is added to the code has to be added to its page."""
    check_rows(name, of, model)


def check_rows(name, of, model):
    assert set(rows(name, of)) == set(model.model_fields)


@pytest.mark.parametrize(("name", "of", "model"), MODELS)
def test_the_defaults_are_those_of_the_code(name, of, model):
    """A required field says so, and a plain value is written as TOML writes it."""
    check_defaults(name, of, model)


def check_defaults(name, of, model):
    for key, default in fields(model).items():
        cell = rows(name, of)[key][1]
        if model.model_fields[key].is_required():
            assert cell == "required", key
        elif isinstance(default, str | int | float | list):
            assert tomllib.loads(f"it = {cell.strip('`')}")["it"] == default, key
        else:
            assert cell and cell != "required", key


def test_no_model_is_left_out():
    """A model that is added to the code has to be added here."""
    assert models_of(native) <= {model for _, _, model in MODELS} | {part for part, _ in PARTS}


def models_of(module):
    return {
        member for member in vars(module).values() if isinstance(member, type) and issubclass(member, BaseModel) and member.model_fields
    }


def test_every_word_that_a_key_may_be_is_on_its_page():
    """Kinds of distribution, dtypes, devices, scores and so on."""
    check_words(MODELS)


def check_words(models):
    for name, _, model in models:
        for key, field in model.model_fields.items():
            for word in words(field.annotation):
                assert f"`{word}`" in page(name), f"{key} = {word!r}"


def words(annotation):
    """The literals in an annotation, however deep; not those of another model."""
    if typing.get_origin(annotation) is typing.Literal:
        yield from typing.get_args(annotation)
    else:
        for inner in typing.get_args(annotation):
            yield from words(inner)


def test_the_problem_of_the_page_loads(tmp_path):
    """As it is printed, with its reference."""
    (tmp_path / "problem.toml").write_text(block(PROBLEMS, "toml"))
    (tmp_path / "reference.py").write_text(block(PROBLEMS, "python"))
    spec = native.load(tmp_path).spec
    assert [workload.hidden for workload in spec.workloads] == [False, False, True] and spec.inputs[0].distribution.kind == "heavy_tail"
    compile(spec.reference, "reference.py", "exec")
