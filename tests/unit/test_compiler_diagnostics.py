"""Records of a compiler's log, by line of the source. The texts are those of nvcc 13.0, g++ 12.2 and our own builder."""

import pytest

from grader.model import Verdict
from grader.verdict.compiler_diagnostics import (
    DIAGNOSTIC_LIMIT,
    FILE_LIMIT_CHARS,
    MESSAGE_LIMIT_CHARS,
    Severity,
    compiler_diagnostics,
)
from grader.verdict.fold import fold
from sandbox.protocol import wire

NVCC = """\
kernel.cu(3): error: identifier "b" is undefined
    c[0] = b[0];
           ^

parts/add.cuh(5,7): error #20-D: expected a ")"
  }
  ^

2 errors detected in the compilation of "kernel.cu".
kernel.cu(2): warning #177-D: variable "unused" was declared but never referenced
    int unused;
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas error   : Entry function 'k(float*)' uses too much shared data (0x61a80 bytes, 0x38c00 max)
"""
GCC = """\
kernel.cu: In function ‘void solve(const float*, float*, long int, void*)’:
kernel.cu:3:10: error: ‘b’ was not declared in this scope
    3 |   c[0] = b[0];
      |          ^
kernel.cu:1:17: note: declared here
kernel.cu:9:1: warning: unused variable ‘x’ [-Wunused-variable]
dir/other.cu:1:10: fatal error: nothing.h: No such file or directory
compilation terminated.
"""
GCC_TEMPLATE = """\
/usr/include/c++/12/bits/stl_algo.h:4820:18:   required from ‘constexpr void std::sort(_RAIter, _RAIter)’
kernel.cu:4:54:   required from here
/usr/include/c++/12/bits/predefined_ops.h:45:23: error: no match for ‘operator<’ (operand types are ‘S’ and ‘S’)
   45 |       { return *__it1 < *__it2; }
/usr/include/c++/12/bits/stl_iterator.h:1185:5: note: candidate: ‘template<class _IteratorL>’
/usr/include/c++/12/bits/stl_iterator.h:7:5: error: another
"""
NVCC_TEMPLATE = """\
/usr/include/c++/12/bits/predefined_ops.h(45): error: no operator "<" matches these operands
            operand types are: S < S
          detected during:
            instantiation of "void std::sort(_RAIter, _RAIter)" at line 233 of /usr/include/c++/12/bits/stl_heap.h
            instantiation of "void std::sort(_RAIter, _RAIter)" at line 4 of kernel.cu
"""
LINKER = """\
/usr/bin/ld: kernel.cu:(.text+0x1a): undefined reference to `other()'
/usr/bin/ld: b.cu:7: multiple definition of `f'; a.cu:3: first defined here
collect2: error: ld returned 1 exit status
"""
PYTHON = """\
kernel.py:3: error: NameError: name 'foo' is not defined
  kernel.py:4, in <module>: f()
  kernel.py:3, in f: return foo
kernel.py:8: DeprecationWarning: it is old
/venv/lib/python3.11/site-packages/triton/knobs.py:504: UserWarning: TRITON_DEFAULT_FP_FUSION is unset
kernel.py: error: the module has no function 'solve'
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/tmp/build-x1/module/sources/mine/kernel.py", line 12, in <module>
    work()
  File "/usr/lib/python3.11/functools.py", line 3, in wrapper
    return function()
ValueError: no good
  File "/tmp/build-x1/module/sources/mine/kernel.py", line 3
    x = = 1
        ^
SyntaxError: invalid syntax
"""
TRITON = """\
kernel.py:8: error: triton.compiler.errors.CompilationError: at 2:20:
def k(p, n: tl.constexpr):
    x = tl.load(p + undefined)
                    ^
NameError('undefined is not defined')
  kernel.py:8, in <module>: launch()
"""
NUMBA = """\
kernel.py:2: error: numba.core.errors.TypingError: Failed in nopython mode pipeline (step: nopython frontend)
No implementation of function Function(<built-in function add>) found for signature:

 >>> add(Literal[str](a), int64)

During: typing of intrinsic-call at kernel.py (4)

File "../sources/kernel.py", line 4:
def f(x):
    y = "a" + x
    ^

During: Pass nopython_type_inference
  kernel.py:2, in <module>: @njit("int64(int64)")
"""
EMULATION = "kernel.cu:2: error: the emulated device does not run inline PTX (asm); write it in CUDA C++\n"
INLINE = "cuda.cu:5:9: error: ‘nothing’ was not declared in this scope\nkernel.py:3: note: asked for here\n"


# By log: file, line, column, how bad it is, and what it says.
RECORDS = {
    NVCC: """\
kernel.cu:3:0: error: identifier "b" is undefined
parts/add.cuh:5:7: error: expected a ")"
kernel.cu:2:0: warning: variable "unused" was declared but never referenced
:0:0: error: Entry function 'k(float*)' uses too much shared data (0x61a80 bytes, 0x38c00 max)
""",
    GCC: """\
kernel.cu:3:10: error: ‘b’ was not declared in this scope
kernel.cu:1:17: note: declared here
kernel.cu:9:1: warning: unused variable ‘x’ [-Wunused-variable]
dir/other.cu:1:10: error: nothing.h: No such file or directory
""",
    GCC_TEMPLATE: """\
kernel.cu:4:54: error: no match for ‘operator<’ (operand types are ‘S’ and ‘S’)
<stl_iterator.h>:7:5: error: another
""",
    NVCC_TEMPLATE: """\
kernel.cu:4:0: error: no operator "<" matches these operands
""",
    LINKER: """\
kernel.cu:0:0: error: undefined reference to `other()'
b.cu:7:0: error: multiple definition of `f'; a.cu:3: first defined here
:0:0: error: ld returned 1 exit status
""",
    PYTHON: """\
kernel.py:3:0: error: NameError: name 'foo' is not defined
kernel.py:8:0: warning: DeprecationWarning: it is old
kernel.py:0:0: error: the module has no function 'solve'
""",
    TRACEBACK: """\
mine/kernel.py:12:0: error: ValueError: no good
mine/kernel.py:3:0: error: SyntaxError: invalid syntax
""",
    TRITON: """\
kernel.py:8:0: error: triton.compiler.errors.CompilationError: at 2:20: NameError('undefined is not defined')
""",
    NUMBA: """\
kernel.py:4:0: error: numba.core.errors.TypingError: Failed in nopython mode pipeline (step: nopython frontend) No implementation \
of function Function(<built-in function add>) found for signature:
""",
    EMULATION: """\
kernel.cu:2:0: error: the emulated device does not run inline PTX (asm); write it in CUDA C++
""",
    INLINE: """\
cuda.cu:5:9: error: ‘nothing’ was not declared in this scope
kernel.py:3:0: note: asked for here
""",
    "": "",
    "ptxas info    : Used 32 registers\nbuilt\n": "",
}


@pytest.mark.parametrize(("log", "records"), RECORDS.items(), ids=range(len(RECORDS)))
def test_what_compilers_say_of_a_line_is_a_record(log: str, records: str) -> None:
    """Of each compiler."""
    entries = compiler_diagnostics(log)
    assert "".join(f"{record.file}:{record.line}:{record.column}: {record.severity}: {record.message}\n" for record in entries) == records


@pytest.mark.parametrize(
    ("named", "file"),
    [
        ("kernel.cu", "kernel.cu"),
        ("./kernel.cu", "kernel.cu"),
        ("parts/kernel.cu", "parts/kernel.cu"),
        ("/grader/src/files/kernel.cu", "kernel.cu"),
        ("/grader/src/files/src/files/kernel.cu", "src/files/kernel.cu"),
        ("/tmp/build-a1/module/sources/mine/kernel.py", "mine/kernel.py"),
        ("../sources/kernel.py", "kernel.py"),
        ("/grader/src/modules/task.py", "task.py"),
        ("/usr/include/c++/12/vector", "<vector>"),
        ("/etc/passwd", "<passwd>"),
        ("../../etc/passwd", "<passwd>"),
        ("/grader/src/files/../../etc/passwd", "<passwd>"),
        ("a//b.cu", "<b.cu>"),
        ("a/./b.cu", "<b.cu>"),
        ("<built-in>", ""),
        ("cc1plus", ""),
        ("/", ""),
        ("/usr/lib/..", ""),
    ],
)
def test_a_file_is_named_as_it_was_submitted(named: str, file: str) -> None:
    """No path of a box or of its host is shown: what is not the submission's is called by its base name, in angle brackets."""
    assert [diagnostic.file for diagnostic in compiler_diagnostics(f"{named}:3:1: error: no\n")] == [file]


def test_records_are_plain_and_bounded() -> None:
    """No colours, no control characters, no text that runs backwards; names and sentences are cut."""
    [diagnostic] = compiler_diagnostics("kernel.cu:1:2: error: \x1b[31mred\x1b[0m\x07 \u202eback\x00wards\t!\r\n")
    assert diagnostic.message == "red backwards !"
    long = compiler_diagnostics(f"{'d/' * 90}{'x' * 50}.cu:1:2: error: {'y' * 1000}\n{'d/' * 40}k.cu:1:2: error: no")
    assert [(len(entry.file) <= FILE_LIMIT_CHARS, len(entry.message)) for entry in long] == [(True, MESSAGE_LIMIT_CHARS), (True, 2)]
    assert compiler_diagnostics("kernel.cu:9999999999:1: error: no") == ()


def test_of_many_the_errors_are_kept_in_their_order() -> None:
    """A flood of warnings hides no error; the control has fewer, and loses nothing."""
    flood = "".join(f"kernel.cu:{line}:1: warning: w\n" for line in range(1, 101))
    diagnostics = compiler_diagnostics(f"kernel.cu:7:1: error: first\n{flood}kernel.cu:200:1: error: last\n")
    assert len(diagnostics) == DIAGNOSTIC_LIMIT and (diagnostics[0].line, diagnostics[1].line, diagnostics[-1].line) == (7, 1, 200)
    assert [diagnostic.severity for diagnostic in diagnostics].count(Severity.ERROR) == 2
    assert len(compiler_diagnostics(flood[: flood.index("kernel.cu:11:")])) == 10


@pytest.mark.parametrize(
    ("log", "reason", "summary"),
    [
        (GCC, None, "The compiler rejected the source: kernel.cu:3: ‘b’ was not declared in this scope."),
        (
            EMULATION,
            "UNSUPPORTED",
            "The source uses what this device, or this grader, does not have: kernel.cu:2: the emulated device does not run inline PTX "
            "(asm); write it in CUDA C++.",
        ),
        (PYTHON, "IMPORT_FAILED", "The module could not be imported: kernel.py:3: NameError: name 'foo' is not defined."),
        (PYTHON, "ENTRY_NOT_FOUND", "It compiled, but the entry point is not in it; the log says what to add."),
        ("no", None, "The compiler rejected the source; the log has file and line."),
        (
            "/usr/bin/ld: b.cu: in function `solve':\nb.cu:(.text+0x6b0): multiple definition of `solve'; "
            "a.cu:a.cu:(.text+0x6b0): first defined here",
            None,
            "a.cu and b.cu both define solve; each .cu file is compiled: keep one, or name a file that another includes .cuh.",
        ),
        (
            "/usr/bin/ld: /lib/x.so:(.text+0x6b0): multiple definition of `solve'; a.cu:(.text+0x6b0): first defined here",
            None,
            "The compiler rejected the source; the log has file and line.",
        ),
    ],
)
def test_the_verdict_names_the_first_error(log: str, reason: str | None, summary: str) -> None:
    """With its line; where there is none it points to the log."""
    report = fold([wire.Build(outcome=wire.BuildOutcome.REJECTED, log=log, reason=reason)])
    assert (report.verdict, report.summary) == (Verdict.COMPILE_ERROR, summary)
