"""Functions of Python as kernels and as problems: what is sent of them, and what is refused because it would be something else."""

import functools
import math
import tomllib
from collections import namedtuple
from dataclasses import dataclass

import pytest

import grader
from grader.formats import native
from grader.python.functions import function_source, kernel_source


@dataclass
class Tensor:
    """Stand-in: it has a shape and a dtype."""

    shape: tuple
    dtype: str = "torch.float32"
    low: int = 0
    high: int = 6

    def min(self):
        return self.low

    def max(self):
        return self.high


EPS, LIMITS = 1e-5, (0, 1.5)
POINT = namedtuple("Point", "x")(1)
TENSOR = Tensor((2,))


def twice(function):
    @functools.wraps(function)
    def wrapped(x):
        return function(function(x))

    return wrapped


def helper(x):
    return x + EPS


@twice
def decorated(x):
    return helper(x)


wrapped_later = twice(helper)
alias = helper


def uses_much(x, y=EPS):
    def inner(z):
        return [helper(z) for z in LIMITS]

    return decorated(x), inner(y), math.floor(1.5), dataclass


def recursive(x):
    return x if x < 1 else recursive(x - 1)


def uses_tensor(x):
    return x + TENSOR


def uses_point(x):
    return x + POINT.x


def uses_alias(x):
    return alias(x)


def uses_wrapped(x):
    return wrapped_later(x)


def shadows():
    EPS = 2.0

    def outer(x):
        return helper(x) + EPS

    return outer


def run(source, name, *arguments):
    names = {"__name__": "sent"}
    exec(compile(source, "sent.py", "exec"), names)
    return names[name](*arguments)


def test_what_a_function_uses_is_sent_along():
    """Functions, constants, modules and decorators, in an order in which they can be run; nothing else."""
    source = function_source(uses_much)
    assert run(source, "uses_much", 1)[0] == pytest.approx(1 + 2 * EPS) and "TENSOR" not in source
    assert run(function_source(recursive), "recursive", 3) == 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x, "a lambda"),
        (len, "has no source"),
        (functools.partial(helper, 1), "has no source"),
        (Tensor((1,)).min, "a method"),
        (wrapped_later, "wrapped where its source does not say so"),
        (uses_tensor, "'TENSOR', which is of type Tensor"),
        (uses_point, "'POINT', which is of type Point"),
        (uses_alias, "'alias', which is of type function"),
        (uses_wrapped, "'wrapped_later', which is of type function"),
        (shadows(), "two things that are called 'EPS'"),
    ],
)
def test_what_would_be_another_function_is_refused(function, words):
    """A reference that differs from what its author runs would accept wrong kernels."""
    with pytest.raises(grader.CallInvalid, match=words):
        grader.Problem.from_function(function, [Tensor((2, 3))])


def test_the_kernel_of_a_file_is_its_whole_module():
    assert "def test_the_kernel_of_a_file" in kernel_source(recursive)


def gather(x, index, scale):
    return Tensor((*index.shape, x.shape[1])), scale


def load(problem, tmp_path):
    return native.load(problem.save(tmp_path))


def test_a_problem_has_the_axes_that_its_examples_tell_apart(tmp_path):
    """Sizes that change together are one, those that do not are fixed, and numbers keep their values."""
    examples = [[Tensor((7, 5)), Tensor((4,), "int64"), 0.5], [Tensor((9, 5)), Tensor((8,), "int64", high=8), 0.25]]
    problem = grader.Problem.from_function(gather, examples[0], more_inputs=examples[1:], tolerance={"atol": 0.5})
    read = load(problem, tmp_path)
    assert [tensor.shape for tensor in (*read.spec.inputs, *read.spec.outputs)] == [("size0", 5), ("size1",), (), ("size1", 5), ()]
    assert [dict(workload.axes) for workload in read.spec.workloads] == [{"size0": 7, "size1": 4}, {"size0": 9, "size1": 8}]
    assert (read.problem_id, read.spec.tolerance.atol) == (problem.name, 0.5)
    ranges = [workload["distributions"] for workload in tomllib.loads(problem.toml)["workloads"]]
    assert [(drawn["index"]["high"], drawn["scale"]["high"]) for drawn in ranges] == [(6.0, 0.5), (8.0, 0.25)]


def test_a_changed_reference_is_another_problem():
    first, second = (grader.Problem.from_function(function, [Tensor((2,))]) for function in (recursive_shape, recursive_shape_too))
    assert first.name != second.name and first == grader.Problem.from_function(recursive_shape, [Tensor((2,))])


def recursive_shape(x):
    return x


def recursive_shape_too(x):
    return x


def 𠀀(x, größe):
    return x


def test_names_of_any_script_make_a_problem():
    """TOML has neither pairs of surrogates nor plain keys beyond ASCII."""
    fields = tomllib.loads(grader.Problem.from_function(𠀀, [Tensor((2,)), 2**60]).toml)
    assert (fields["title"], fields["workloads"][0]["distributions"]["größe"]["high"]) == ("𠀀", 2**60)


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        ([Tensor((3,), "int32", low=4, high=4)], "all integers of an example are the same"),
        (["text"], "is of type str"),
        ([2**60 + 1], "1152921504606846977 would be sent as another number"),
        ([Tensor((3,)), Tensor((3,))], "too many positional arguments"),
    ],
)
def test_examples_that_make_no_problem_are_refused(examples, words):
    with pytest.raises((ValueError, TypeError), match=words):
        grader.Problem.from_function(recursive_shape, examples)
