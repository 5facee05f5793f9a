"""The page on the emulated device comes from the conformance suite and from the code that refuses a source."""

import shutil
from pathlib import Path

import pytest

from tools import emulation_page
from tools.emulation_page import CONFORMANCE, FEATURES, UNSUPPORTED, FeatureTableError


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of the conformance suite."""
    return Path(shutil.copytree(CONFORMANCE, tmp_path / "conformance", ignore=shutil.ignore_patterns("__pycache__")))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def add_program(suite: Path) -> None:
    (suite / "new.cu").write_text("__global__ void k() {}\n")
    (suite / "new.expected").write_text("")


def test_a_program_without_a_feature_is_an_error(suite: Path) -> None:
    """A new program has to have a feature."""
    add_program(suite)
    with pytest.raises(FeatureTableError, match=r"^new\.cu is in no feature"):
        emulation_page.page("", suite)


def test_a_program_without_a_printer_is_an_error(suite: Path) -> None:
    """The page says which GPU printed what is expected; that is not assumed."""
    add_program(suite)
    edit(suite / FEATURES, '["vector_add"]', '["vector_add", "new"]')
    with pytest.raises(FeatureTableError, match=r"^new\.cu is not under \[printed_by\]"):
        emulation_page.page("", suite)


def test_a_new_program_makes_the_page_out_of_date(suite: Path) -> None:
    """It is among the features."""
    before = emulation_page.page("", suite)
    assert before == emulation_page.page("")
    add_program(suite)
    edit(suite / FEATURES, '["vector_add"]', '["vector_add", "new"]')
    edit(suite / FEATURES, '"H100, CUDA 13" = [', '"none" = ["new"]\n"H100, CUDA 13" = [')
    changed = set(emulation_page.page("", suite).splitlines()) - set(before.splitlines())
    new = "[new](../../tests/conformance/new.cu)"
    (line,) = changed
    assert line.startswith("| one-dimensional kernels") and line.endswith(f"{new} | H200, CUDA 13; none |")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('["vector_add"]', '["vector_add", "gone"]', r"gone\.cu does not exist"),
        ('"H100, CUDA 13" = [', '"none" = ["gone"]\n"H100, CUDA 13" = [', r"gone\.cu does not exist"),
        ('"H100, CUDA 13" = [', '"none" = ["vector_add"]\n"H100, CUDA 13" = [', "names a program twice"),
        ("::test_memory_that_nobody_wrote_is_nan", "::test_gone", "which does not exist"),
        ('"test_short_floats.py"', '"test_gone.py"', "which does not exist"),
        (', programs = ["vector_add"]', "", "names neither programs nor tests"),
    ],
)
def test_a_table_of_features_that_does_not_fit_is_an_error(old: str, new: str, words: str, suite: Path) -> None:
    """It names what is there, and everything that is there."""
    edit(suite / FEATURES, old, new)
    with pytest.raises(FeatureTableError, match=words):
        emulation_page.features(suite)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"CUtensorMap map;"', '"int map;"', "does not refuse this source"),
        ('"wgmma.fence.sync.aligned;", "setmax', '"mov.u32 %0, 1;", "setmax', "does not refuse this source"),
        ('"cudaImportExternalMemory"', '"importMemory"', "does not refuse importMemory"),
        ('"thrust/sort.h"', '"own/sort.h"', "does not refuse own/sort.h"),
        ('"CUtensorMap map;",', "", "shows: CUtensorMap$"),
        ('"tld4.r.2d', '"tex.r.2d', "shows: tld4$"),
        ('"#include <cuda_fp4.h>"', '"#include <cuda/latch>"', r"shows: cuda_fp4\.h$"),
        ('"__shared__ float tile[64];", ', "", "shows: the emulated device has no shared variables outside functions"),
    ],
)
def test_what_is_refused_and_what_the_table_has_must_agree(old: str, new: str, words: str, suite: Path) -> None:
    """Each source is refused, and each refusal of the code has a source."""
    edit(suite / UNSUPPORTED, old, new)
    with pytest.raises(FeatureTableError, match=words):
        emulation_page.refusals(suite)


def test_every_header_of_types_has_a_call(suite: Path) -> None:
    """A header that is not in the table, and a table that names another one."""
    edit(suite / UNSUPPORTED, 'header = "nccl.h"', 'header = "mma.h"')
    with pytest.raises(FeatureTableError, match=r"differ in mma\.h, nccl\.h$"):
        emulation_page.library_refusals(suite)


def test_messages_are_those_that_users_get() -> None:
    """One each from C++, PTX, a library and g++."""
    page = emulation_page.page("")
    for message in (
        "`the emulated device has no mipmapped textures; use a CUDA device for this kernel` |",
        "`the emulated device has no warpgroup instructions (wgmma); use mma.sync, or use a CUDA device for this kernel` |",
        "| `the emulated device has no NCCL, of which ncclAllReduce is called here; use a CUDA device for this kernel` |",
        "| `the emulated device has no cudaImportExternalMemory; use a CUDA device for this kernel` |",
    ):
        assert message in page
