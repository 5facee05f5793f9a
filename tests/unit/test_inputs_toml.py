"""Distributions in problem.toml: what is written reaches the judge, what means nothing is refused, and old problems stay what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import native
from sandbox.protocol import wire
from tests import fakes

EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
DIGESTS = {  # from before there was more than normal, uniform, integers, heavy_tail and constant
    "vector_add": "638a01f3329c172241924afe974b864872842f843bfdd9206713729cc77bb690",
    "row_softmax": "2ad90b3619aa59ccecc65d386d564e278bc83f42ce76bcc92e4e12d42d13a5eb",
    "tril_matmul": "eea1f31039f3b9ca1f0d36212b8e69384f1829a93db6a347665270bb5bd899eb",
}
INPUT = 'name = "a", shape = ["n"]'


def load(tmp_path: Path, distribution: str = "", dtype: str = "float32", override: str = "", shape: str = '["n"]') -> wire.ProblemSpec:
    text = fakes.PROBLEM_TOML.format(name="sum")
    assert INPUT in text and 'id = "n64"' in text
    key = f", distribution = {{ {distribution} }}" if distribution else ""
    text = text.replace(INPUT, f'name = "a", shape = {shape}, dtype = "{dtype}"{key}')
    text = text.replace('id = "n64"', f'id = "n64", distributions = {{ {override} }}' if override else 'id = "n64"')
    return native.load(fakes.write_problem(tmp_path, text=text)).spec


@pytest.mark.parametrize("name", DIGESTS)
def test_the_examples_stay_the_problems_that_they_were(name: str) -> None:
    """Defaults of a problem are no part of its digest. Change a digest here only with the problem itself."""
    assert native.load(EXAMPLES / name).digest == DIGESTS[name]


def test_a_problem_that_says_nothing_draws_as_before(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert spec.inputs[0].distribution == wire.Distribution() and spec.workloads[0].distributions == {}


def test_every_key_reaches_the_judge(tmp_path: Path) -> None:
    spec = load(tmp_path, "scale = 2.0, scale_spread = 0, offset = 0, needles = 0, needle_factor = 3.0")
    expected = wire.Distribution(scale=2.0, scale_spread=0.0, offset=0.0, needles=0, needle_factor=3.0)
    assert spec.inputs[0].distribution == expected
    assert spec.digest != load(tmp_path / "other", "scale = 2.0").digest


@pytest.mark.parametrize(
    ("distribution", "dtype", "message"),
    [
        ('kind = "mixture"', "float32", "a mixture needs 'parts'"),
        ('kind = "mixture", parts = [{}]', "float32", "at least 2"),
        ('kind = "mixture", parts = [{}, { kind = "mixture" }]', "float32", "kind"),
        ('kind = "uniform", needles = 3', "float32", "'needles' means nothing to the kind 'uniform', only to normal and heavy_tail"),
        ("weight = 2.0", "float32", "'weight' is for the parts of a mixture"),
        ('kind = "normal", high = "n"', "float32", "'high' may name an axis for index, sorted, uniform only"),
        ('kind = "index", high = "m"', "int64", "'high' is 'm', which is not in axes"),
        ('kind = "index", high = 0', "int64", "make 'high' larger"),
        ('kind = "index", high = 2.5', "int64", "are whole numbers"),
        ('kind = "index", high = 300', "uint8", "do not fit into uint8"),
        ('kind = "index", low = -1, high = 3', "uint8", "do not fit into uint8"),
        ('kind = "uniform", high = "n"', "int64", "are of the kind 'index'"),
        ('kind = "uniform", low = -1000, high = 1000', "int32", "take 'integers', from 'low' to 'high', both of them"),
        ('kind = "uniform"', "bool", "the kind 'uniform' is for floats, and bool is none"),
        ('kind = "mixture", parts = [{ kind = "constant" }, { kind = "uniform" }]', "int64", "or 'index', from 'low' to below"),
        ('kind = "probabilities"', "int32", "probabilities are floats"),
        ('structure = "lower_triangular"', "float32", "is for tensors of 2 or more axes; this one has 1"),
        ('structure = "one_hot", density = 0.5', "float32", "'density' is a key of the structure 'sparse'"),
        ('structure = "sparse"', "float32", "the structure 'sparse' needs 'density'; add it"),
        ('structure = "sparse", density = 0', "float32", "density"),
        ('structure = "triangular"', "float32", "structure"),
        ('kind = "mixture", parts = [{ structure = "sorted" }, {}]', "float32", "structure"),
        ("needles = -1", "float32", "needles"),
        ("scale_spread = 1e9", "float32", "scale_spread"),
        ("scales = 1", "float32", "scales"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, distribution: str, dtype: str, message: str) -> None:
    with pytest.raises(ProblemInvalid) as caught:
        load(tmp_path, distribution, dtype)
    assert message in str(caught.value) and "problem.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [("b = {}", "has a distribution for 'b'; the inputs are ['a']"), ('a = { kind = "index", high = -3 }', "input 'a' at workload 'n64'")],
)
def test_a_workload_s_distribution_is_checked_too(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ProblemInvalid) as caught:
        load(tmp_path, dtype="int64", override=override)
    assert message in str(caught.value)


TOO_FAR = 'kind = "integers", low = 0, high = 9007199254740994'


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (TOO_FAR, "'high' is 9007199254740994"),
        ('kind = "integers", low = -9007199254740994, high = 0', "'low' is -9007199254740994"),
        ('kind = "constant", high = 1152921504606846976', "'high' is 1152921504606846976"),
        (f'kind = "mixture", parts = [{{ weight = 1 }}, {{ weight = 1, {TOO_FAR} }}]', "'high' is 9007199254740994"),
    ],
)
def test_a_whole_number_that_would_not_arrive_is_refused(tmp_path: Path, distribution: str, message: str) -> None:
    """A scalar travels as a double: past 2 ** 53 an honest kernel would get another number than the reference."""
    with pytest.raises(ProblemInvalid) as caught:
        load(tmp_path, distribution, "int64", shape="[]")
    assert f"input 'a' at workload 'n64': {message}" in str(caught.value) and "give the input an axis" in str(caught.value)
