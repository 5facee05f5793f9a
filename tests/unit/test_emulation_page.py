"""The page on the emulated device comes from the conformance suite and from the code that refuses a source."""

import shutil
from pathlib import Path

import pytest

from tools import emulation_page
from tools.emulation_page import CONFORMANCE, UNSUPPORTED, FeatureTableError


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of the conformance suite."""
    return Path(shutil.copytree(CONFORMANCE, tmp_path / "conformance", ignore=shutil.ignore_patterns("__pycache__")))


def edit(path: Path, old: str, replacement: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, replacement, 1))


@pytest.mark.parametrize(
    ("old", "replacement", "words"),
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
def test_what_is_refused_and_what_the_table_has_must_agree(old: str, replacement: str, words: str, suite: Path) -> None:
    """Each source is refused, and each refusal of the code has a source."""
    edit(suite / UNSUPPORTED, old, replacement)
    with pytest.raises(FeatureTableError, match=words):
        emulation_page.refusals(suite)


def test_messages_are_those_that_users_get() -> None:
    """A message each from C++, PTX, a library and g++."""
    page = emulation_page.page("")
    for message in (
        "`the emulated device has textures over linear memory only, read by tex1Dfetch; use a CUDA device for this kernel` |",
        "`the emulated device has no warpgroup instructions (wgmma); use mma.sync, or use a CUDA device for this kernel` |",
        "| `the emulated device has no NCCL, of which ncclAllReduce is called here; use a CUDA device for this kernel` |",
        "| `the emulated device has no cudaImportExternalMemory; use a CUDA device for this kernel` |",
    ):
        assert message in page
