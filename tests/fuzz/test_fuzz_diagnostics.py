"""Records of compilers' logs: whatever a build box prints, they are bounded and plain, fit into the API, and name no path of a host."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.grading.build import cut
from grader.v1 import report_pb2
from grader.verdict.compiler_diagnostics import (
    DIAGNOSTIC_LIMIT,
    FILE_LIMIT_CHARS,
    MESSAGE_LIMIT_CHARS,
    Severity,
    compiler_diagnostics,
    first_error,
)
from sandbox.protocol.wire import LOG_LIMIT_BYTES
from tests.fuzz import values
from tests.unit.test_compiler_diagnostics import GCC, GCC_TEMPLATE, LINKER, NUMBA, NVCC, NVCC_TEMPLATE, PYTHON, TRACEBACK, TRITON

LOGS = (GCC, GCC_TEMPLATE, LINKER, NUMBA, NVCC, NVCC_TEMPLATE, PYTHON, TRACEBACK, TRITON)
WORDS = (
    "kernel.cu", "/grader/src/files/", "/module/sources/", "../", "/etc/passwd", "(3)", ":3:4:", ":3:", ": error: ", ": warning #1-D: ",
    ": note: ", "(3): catastrophic error: ", "ptxas fatal   : ", 'File "', '", line 4', '", line 4:', "   required from here",
    " at line 4 of kernel.cu", "numba.x: ", " at 2:20:", "^", "NameError: ", "error: ", "(.text+0x1): undefined reference to ",
    "/usr/bin/ld: ", "\n", "\n", "\x1b[31m", "\u202e", "9999999999", "٣", "\udcff", "\0", "(", ":", " ",
)  # fmt: skip
CRAFTED = st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(WORDS), values.texts()), max_size=40).map("".join)
TEXTS = st.one_of(CRAFTED, st.sampled_from(LOGS).flatmap(lambda log: values.garbled(log, WORDS)), values.texts())
CONTROL = {chr(code) for code in (*range(32), *range(127, 160), 0x202E, 0x2028)}


def check(log: str) -> None:
    """All that is promised of a log's records."""
    found = compiler_diagnostics(log)
    assert len(found) <= DIAGNOSTIC_LIMIT and len(set(found)) == len(found)
    for one in found:
        assert one.severity in Severity and 0 <= one.line < 10**9 and 0 <= one.column < 10**9
        assert len(one.file) <= FILE_LIMIT_CHARS and len(one.message) <= MESSAGE_LIMIT_CHARS
        assert (one.file + one.message).isprintable() and CONTROL.isdisjoint(one.file + one.message)
        assert not one.file.startswith("/") and ".." not in one.file.split("/") and (one.file or not one.line)
        shown = report_pb2.CompilerDiagnostic(
            file=one.file, line=one.line, column=one.column, severity=one.severity, message=one.message
        ).SerializeToString()
        assert len(shown) < 4 * (FILE_LIMIT_CHARS + MESSAGE_LIMIT_CHARS) + 40
    first = first_error(log)
    assert first is None or (first in found and first.line and first.file)


@given(TEXTS)
@example("kernel.cu:3:4: error: \udcff")
@example("kernel.cu(3): error: no\nat line 4 of kernel.cu")
@example('File "kernel.py", line 4:')
@example("kernel.py:1: error: numba.x: \n" * 3)
def test_any_text_gives_plain_records(log: str) -> None:
    check(log)


@given(st.binary(max_size=400), st.sampled_from(LOGS), st.integers(0, 400))
def test_any_bytes_of_a_box_give_plain_records(noise: bytes, log: str, at: int) -> None:
    content = log.encode()
    check(cut(content[:at] + noise + content[at:])[0])


PIECES = ("a:1:", "(", ")", ":", " ", "x", "a b ", "/", "../", "kernel.cu(", "ld ", "/usr/bin/ld: ", 'File "', "error", "at 1:1: ", "\x1b[")


@pytest.mark.parametrize("piece", [*PIECES, "\n", "a:error\n", "٣:"])
def test_no_text_takes_long_to_read(piece: str) -> None:
    """In one line and in many, as long as a log can be: by the process's own clock, with much room for a busy machine."""
    for log in (piece * LOG_LIMIT_BYTES, (piece * 500 + "\n") * LOG_LIMIT_BYTES, f"kernel.cu:1:1: error: {piece * 300}\n" * 2000):
        begun_s = time.process_time()
        check(log)
        assert time.process_time() - begun_s < 2.0
