"""Findings of the emulated device's sanitizer.  Every program of `sanitizer/` has a bug, and with -DFIXED it has none; so has every kernel
of `programs/bugs.cu`.

A comment before it says what is found, and others mark the lines: `// line`, and `// other` for the second access of a race.
"""

import re
import signal
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import gcc
from grader_extensions.emulated_cuda.sanitizer_log import read_log
from grader_extensions.emulated_cuda.tests.conformance.conftest import compile_sanitized, kernel_file, run
from sandbox.protocol.wire import SanitizerFinding, SanitizerKind, SanitizerSeverity

HERE = Path(__file__).parent
BUGS = sorted((HERE / "sanitizer").glob("*.cu"), key=lambda path: path.name)
# One of each kind is in `make check`; g++ takes three seconds for one.
QUICK = {"missing_barrier", "silent"}
MARKED = [
    *(pytest.param(path, id=path.stem) for path in BUGS if path.stem in QUICK),
    *(pytest.param(path, id=path.stem, marks=pytest.mark.slow) for path in BUGS if path.stem not in QUICK),
]
CONFORMANCE = sorted(HERE.glob("*.cu"), key=lambda path: path.name)
# What the sanitizer does not run, and a program that reads past what it wrote and drops the value.
UNCOVERED = {"cluster", "grid_sync", "ptx_memory"}


KERNELS = HERE / "programs" / "bugs.cu"
FINDS = "// finds: "


def look(source: Path, folder: Path, *flags: str, ends: int = 0) -> list[SanitizerFinding]:
    """Build the program, run it, and read what was found."""
    program, log = compile_sanitized(source, folder, *flags), folder / "log"
    assert run(program, GRADER_SANITIZER_LOG=log).returncode == ends
    return read_log(log, program)


def expectation(lines: Sequence[str], first: int = 1) -> tuple[list[str], set[int]]:
    """Return the finding that the first of these lines names, and which of them are marked. first: its number."""
    comments = [line.rpartition("//")[2].split() for line in lines]
    marked = {number for number, words in enumerate(comments, start=first) if words and set(words) <= {"line", "other"}}
    return lines[0].removeprefix(FINDS).partition(".")[0].split(), marked


def check(findings: list[SanitizerFinding], words: list[str], lines: set[int]) -> None:
    """Assert that a finding has this severity, kind and lines, and that nothing else is worse."""
    severity, kind = SanitizerSeverity(words[0]), SanitizerKind(words[1])
    places = [(finding.severity, finding.kind, {finding.line, finding.other_line} - {0}) for finding in findings]
    assert (severity, kind, lines) in places, findings
    assert findings[0].severity is severity
    assert {finding.kind for finding in findings if finding.severity is SanitizerSeverity.ERROR} <= {kind}


@pytest.mark.parametrize("source", MARKED)
def test_a_bug_is_found_at_its_line(source: Path, tmp_path: Path) -> None:
    """The kind, how severe it is, and both lines of a race."""
    words, lines = expectation(source.read_text().splitlines())
    ends = -signal.SIGSEGV if source.stem == "misaligned" else 0  # as the device, the host stops at it
    findings = look(source, tmp_path, ends=ends)
    if words == ["nothing"]:
        assert findings == []
        return
    check(findings, words, lines)
    assert all(finding.path in (source.name, "") for finding in findings)


@pytest.mark.slow
def test_the_bug_of_each_kernel_is_found_and_without_it_nothing(tmp_path: Path) -> None:
    """As above, of kernels with the same arguments."""
    lines = KERNELS.read_text().splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith(FINDS)]
    for folder, flags in (tmp_path / "bugs", ()), (tmp_path / "fixed", ("-DFIXED",)):
        folder.mkdir()
        program = compile_sanitized(KERNELS, folder, *flags)
        for number, (begin, end) in enumerate(pairwise([*begins, len(lines)])):
            log = folder / f"log{number}"
            assert run(program, number, GRADER_SANITIZER_LOG=log).returncode == 0
            if flags:
                assert read_log(log, program) == [], lines[begin]
            else:
                check(read_log(log, program), *expectation(lines[begin:end], begin + 1))
    assert len(begins) == 16


@pytest.mark.parametrize("source", MARKED)
def test_without_the_bug_nothing_is_found(source: Path, tmp_path: Path) -> None:
    """The same program, put right."""
    assert look(source, tmp_path, "-DFIXED") == []


@pytest.mark.slow
@pytest.mark.parametrize("source", [path for path in CONFORMANCE if path.stem not in UNCOVERED], ids=lambda path: path.stem)
def test_programs_that_are_right_have_no_errors(source: Path, tmp_path: Path) -> None:
    """Warnings and remarks there may be: some programs do on purpose what only works on this device."""
    assert [finding for finding in look(source, tmp_path) if finding.severity is SanitizerSeverity.ERROR] == []


def test_a_barrier_that_some_threads_skip_is_named(tmp_path: Path) -> None:
    """Threads outside the triangle leave before the barrier in the loop, and with them goes their share of the tile."""
    source = HERE / "programs" / "divergent_sync.cu"
    lines = source.read_text().splitlines()
    barrier = next(number for number, line in enumerate(lines, start=1) if "__syncthreads" in line)
    findings = look(source, tmp_path)
    assert (findings[0].kind, findings[0].severity) == (SanitizerKind.UNINITIALISED_READ, SanitizerSeverity.ERROR)
    divergent = next(finding for finding in findings if finding.kind is SanitizerKind.DIVERGENT_BARRIER)
    assert (divergent.severity, divergent.line) == (SanitizerSeverity.WARNING, barrier)
    assert re.match(rf"Threads 0, 16..17, .* wait at line {barrier}; threads 1..15, .* left the kernel", divergent.message)


def test_barriers_of_another_number_per_warp_are_a_warning(tmp_path: Path) -> None:
    """The device goes on, and prints what the program expects."""
    (finding,) = look(HERE / "divergent_barriers.cu", tmp_path)
    assert (finding.kind, finding.severity, finding.line) == (SanitizerKind.DIVERGENT_BARRIER, SanitizerSeverity.WARNING, 5)
    assert "Threads 32..127 wait at line 5; threads 0..31 left the kernel" in finding.message


@pytest.mark.slow
def test_without_marks_a_local_variable_is_not_looked_at(tmp_path: Path) -> None:
    """Sources that g++ takes with the marks for wrong are compiled without: all else is found."""
    source, marked, unmarked = HERE / "sanitizer" / "local_scalar.cu", tmp_path / "marked", tmp_path / "unmarked"
    marked.mkdir()
    unmarked.mkdir()
    (finding,) = look(source, marked)
    assert finding.message == "Line 9 reads the local variable 'total', which this thread has not written"
    assert look(source, unmarked, gcc.WITHOUT_ADDITIONS) == []


@pytest.mark.slow
def test_a_load_that_is_moved_out_of_a_loop_would_be_a_false_alarm(tmp_path: Path) -> None:
    """The reason for `-fno-tree-loop-im`: g++ else loads before the loop what the loop never reads."""
    source = HERE / "sanitizer" / "local_silent.cu"
    assert look(source, tmp_path) == []
    assert {finding.kind for finding in look(source, tmp_path, "-ftree-loop-im")} == {SanitizerKind.UNINITIALISED_READ}


ARENA = """
#include <sys/mman.h>
__global__ void sum(const float* in, float* out, int n) {
    float all = 0;
    for (int i = 0; i < n; ++i) all += in[i];
    out[0] = all;
}
__global__ void spoil(float* in, float* out) { in[0] = 1; out[1] += 1; }
int main() {
    char* arena = static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    auto* in = reinterpret_cast<float*>(arena + 4096);
    auto* out = reinterpret_cast<float*>(arena + 65536);
    emu_sanitizer_region(in, 100 * sizeof(float), "in", 0, 1);
    emu_sanitizer_region(out, 2 * sizeof(float), "out", 1, 0);
    sum<<<1, 1>>>(in, out, 103);
    spoil<<<1, 1>>>(in, out);
    return cudaDeviceSynchronize();
}
"""


def test_memory_that_the_host_names_has_bounds_and_rights(tmp_path: Path) -> None:
    """Between two tensors of one arena nothing may be read; inputs are not written, and outputs hold nothing at first."""
    findings = look(kernel_file(ARENA, tmp_path), tmp_path)
    assert [(finding.kind, finding.line, finding.memory) for finding in findings] == [
        (SanitizerKind.OUT_OF_BOUNDS, 5, "in (global)"),
        (SanitizerKind.OUT_OF_BOUNDS, 8, "in (global)"),
        (SanitizerKind.UNINITIALISED_READ, 8, "out (global)"),
    ]
    assert findings[0].message == "Line 5 reads 4 bytes out of bounds, 0 bytes behind the end of 'in' (global memory)"
    assert findings[0].count == 3
    assert findings[1].message == "Line 8 writes to 'in' (global memory), which is an input and must not be changed"


CRASH = """
__global__ void race(int* x) { *x = threadIdx.x; }
__global__ void stray(int* x) {
    if (threadIdx.x == 3) x[1 << 20] = 1;
}
int main() {
    int* x;
    cudaMalloc(&x, 4);
    race<<<1, 64>>>(x);
    stray<<<1, 32>>>(x);
    return 0;
}
"""


def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    """The access that the process dies of is found too, with its line."""
    findings = look(kernel_file(CRASH, tmp_path), tmp_path, ends=-signal.SIGSEGV)
    stray, race = findings
    assert (stray.kind, stray.line, stray.thread) == (SanitizerKind.OUT_OF_BOUNDS, 4, (3, 0, 0))
    assert "4194300 bytes behind the end of an allocation of 4 bytes" in stray.message
    assert (race.kind, race.line) == (SanitizerKind.RACE, 2)


# Twenty kernels with a race, and the same with the race put right.
RACES = HERE / "programs" / "races.cu"
NUMBERS = range(1, 21)
# A plain read of what others count with atomics: the value is one of several, and none is torn.
MILD = {15}
Look = Callable[[int], list[SanitizerFinding]]


def races_built(folder: Path, *flags: str) -> Look:
    program = compile_sanitized(RACES, folder, *flags)

    def look_at(number: int) -> list[SanitizerFinding]:
        log = folder / f"log{number}"
        assert run(program, number, GRADER_SANITIZER_LOG=log).returncode == 0
        return read_log(log, program)

    return look_at


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Return the findings in the kernels as they are."""
    return races_built(tmp_path_factory.mktemp("racing"))


@pytest.fixture(scope="module")
def put_right(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Return the findings with every race put right."""
    return races_built(tmp_path_factory.mktemp("put_right"), "-DFIXED")


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_a_race_is_found_at_both_its_lines(racing: Look, number: int) -> None:
    """And nothing of another kind but the memory that was read too early."""
    marked = {at for at, line in enumerate(RACES.read_text().splitlines(), start=1) if line.endswith(f"// race {number}")}
    findings = [finding for finding in racing(number) if finding.severity is not SanitizerSeverity.INFO]
    races = [finding for finding in findings if finding.kind is SanitizerKind.RACE]
    severities = {race.severity for race in races}  # lanes of one warp that race are a warning
    assert severities == {SanitizerSeverity.WARNING} if number in MILD else SanitizerSeverity.ERROR in severities
    assert marked
    assert {line for race in races for line in (race.line, race.other_line)} == marked
    assert {finding.kind for finding in findings} <= {SanitizerKind.RACE, SanitizerKind.UNINITIALISED_READ}


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_without_the_race_nothing_is_found(put_right: Look, number: int) -> None:
    """The same kernel with a barrier, an atomic operation or another place."""
    assert [finding for finding in put_right(number) if finding.severity is not SanitizerSeverity.INFO] == []
