"""Signatures of sets for other graders become problems, and starter files are taken or not (tools/field.py). The texts are made up."""

from pathlib import Path

import pytest

from tools import field

CHALLENGE = """
class Challenge:
    def get_solve_signature(self):
        return {{
            "a": (ctypes.POINTER(ctypes.c_float), "in"),
            {more}
            "out": (ctypes.POINTER(ctypes.c_int), "out"),
            "N": (ctypes.c_int, "in"),
            "factor": (ctypes.c_float, "in"),
        }}
"""
KNOWN = {
    "starter.cu": 'extern "C" void solve(const float* a, int* out, int N, float factor) {}',
    "starter.triton.py": "import nothing\n\n\ndef solve(A: torch.Tensor, out, N: int, factor: float = nothing.x):\n    pass\n",
}


def counted(directory: Path, more: str = "", starters: dict[str, str] = KNOWN) -> tuple[dict[str, int], str]:
    place = directory / "1_sum"
    (place / "starter").mkdir(parents=True)
    (place / "challenge.py").write_text(CHALLENGE.format(more=more))
    for name, text in starters.items():
        (place / "starter" / name).write_text(text)
    counts, misses = field.count(directory)
    return counts, "\n".join(misses)


def test_starters_that_are_taken_are_counted(tmp_path):
    """Scalars behind outputs are found by name, whatever the capitals; nothing of the files is executed."""
    counts, misses = counted(tmp_path)
    assert misses == ""
    assert counts == {"cuda in all": 1, "cuda taken unchanged": 1, "triton in all": 1, "triton taken unchanged": 1}


@pytest.mark.parametrize(
    ("more", "starters", "cause"),
    [
        ("", {"starter.cu": 'extern "C" void solve(const double* a, int* out, int N, float factor) {}'}, "`const double* a` is given"),
        ("", {"starter.cu": 'extern "C" void solve(int N, float factor) {}'}, "it has 2 parameters"),
        ("", {"starter.cu": 'extern "C" void other(const float* a) {}'}, "its entry can't be read"),
        ("", {"starter.triton.py": "def solve(a): pass"}, "the entry takes a; the problem calls solve(a, factor)"),
        ("", {"starter.triton.py": "def solve(a, factor, out, N): pass"}, "is called with a, factor, out, N; the set calls it with a, out"),
        ('"model": (nn.Module, "in"),', KNOWN, "inputs.1.dtype"),
    ],
)
def test_a_starter_that_is_not_taken_is_listed_with_its_cause(tmp_path, more, starters, cause):
    counts, misses = counted(tmp_path, more, starters)
    assert misses.startswith("1_sum, ") and cause in misses
    assert not sum(number for name, number in counts.items() if "unchanged" in name)


@pytest.mark.parametrize(("size_type", "taken"), [("size_t", 1), ("quaternion", 0)])
def test_parameters_of_a_definition_are_a_signature(tmp_path, size_type, taken):
    """The control has an unknown type. A draft without parameters is left out."""
    rows = [("x", "float", True, True), ("y", "float", True, False), ("shape", "int", True, True), ("n", size_type, False, False)]
    table = [dict(zip(("name", "type", "pointer", "const"), row, strict=True)) for row in rows]
    for problem, text in (("row-sum", f"class row_sum:\n    parameters = {table}\n"), ("draft", "class draft: ...")):
        (tmp_path / problem).mkdir()
        (tmp_path / problem / "def.py").write_text(text)
    counts, misses = field.count(tmp_path)
    assert counts["cuda in all"] == counts["python in all"] == 1 and bool(misses) is not bool(taken)
    assert counts["cuda taken unchanged"] == counts["python taken unchanged"] == taken, misses
