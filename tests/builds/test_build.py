"""The builder makes the same artifact of the same sources, and says what is wrong with others in their own names."""

import ctypes
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sandbox.builder import build
from sandbox.compilers import steps
from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import IMPORT_FAILED
from sandbox.languages import cuda
from sandbox.protocol import elf, wire

# Slow: what it compiles takes a second or more each, which is not for `make check`.
NVCC = pytest.param("cuda", marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")])
ADD = """
__global__ void add(const float* a, float* b, long n) { long i = blockIdx.x * (long)blockDim.x + threadIdx.x; if (i < n) b[i] += a[i]; }
"""
KERNEL = ADD + 'extern "C" void solve(const float* a, float* b, long n, cudaStream_t s) { add<<<(n + 255) / 256, 256, 0, s>>>(a, b, n); }'
TWO = {
    "host.cpp": '#include "parts/add.cuh"\nextern "C" void solve(const float* a, float* b, long n) { launch(a, b, n); }',
    "parts/add.cuh": "#pragma once\nvoid launch(const float* a, float* b, long n);",
    "parts/add.cu": f"#include <parts/add.cuh>\nstatic {ADD}\nvoid launch(const float* a, float* b, long n) {{ add<<<1, 32>>>(a, b, n); }}",
    "parts/more.cu": "int last_error() { return cudaGetLastError(); }",
}


@pytest.fixture(params=[pytest.param("emulated", marks=pytest.mark.slow), NVCC])
def device_kind(request):
    return request.param


@pytest.fixture
def builder(built):
    """Build sources as a language does it."""
    return lambda files, device_kind, language=cuda, **fields: built(files, lambda *_: language, device_kind=device_kind, **fields)


RETAINED = """
struct Kept { float value; ~Kept() { value = 0; } };
__global__ void keep(const float* a, float* b) {
    Kept kept{a[threadIdx.x]};
    __syncthreads();
    b[threadIdx.x] = kept.value;WRONG
}
extern "C" void solve(const float* a, float* b, long n, cudaStream_t s) { keep<<<1, n, 0, s>>>(a, b); }
"""


def test_a_kernel_whose_second_body_does_not_compile_has_its_first(builder):
    """An object with a destructor has no element for each thread. An error of both bodies is given once, in the user's text."""
    built = builder({"kernel.cu": RETAINED.replace("WRONG", "")}, "emulated")
    assert (built.code, built.log) == (build.BUILT, "")
    built = builder({"kernel.cu": RETAINED.replace("WRONG", " b[0] = valeu;").replace("~Kept() { value = 0; }", "")}, "emulated")
    assert built.code == build.REJECTED
    assert built.log.count("error:") == 1 and "kernel.cu:6:" in built.log and "‘valeu’" in built.log


def test_a_kernel_is_built_with_its_entry_and_always_to_the_same_bytes(builder, device_kind):
    """Raw CUDA, one file. Nothing of a path or of the hour is in an artifact."""
    built, second = builder({"kernel.cu": KERNEL}, device_kind), builder({"kernel.cu": KERNEL}, device_kind)
    assert built.code == build.BUILT, built.log
    assert "solve" in elf.exported_names(built.artifact) and built.artifact == second.artifact
    kernels = [(use.name, use.registers > 0) for use in built.note.kernels]
    assert kernels == ([("add(float const*, float*, long)", True)] if device_kind == "cuda" else [])
    assert built.note == wire.BuildNote(kernels=built.note.kernels)


def test_several_sources_become_one_artifact(builder, device_kind):
    """Kernels beside C++; headers are found beside the file and from the top of the sources."""
    built = builder(TWO, device_kind)
    assert built.code == build.BUILT, built.log
    assert {"solve", "_Z10last_errorv"} <= set(elf.exported_names(built.artifact))


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("kernel.cu:4", "__global__ void broken(float* a) { a[0] = missing_name; }"),
        ("kernel.cu:4", '#include "missing_name.h"'),
        ("./parts/bad.cuh:1", "#include <parts/bad.cuh>"),
    ],
)
def test_an_error_names_the_file_and_the_line_once(builder, device_kind, place, error):
    """As the user wrote them, whichever pass finds it; both of nvcc's passes find these."""
    failed = builder({"kernel.cu": f"// a comment\n{KERNEL.strip()}\n{error}\n", "parts/bad.cuh": "int x = missing_name;\n"}, device_kind)
    lines = [re.sub(r"^(./)?([^(]+)\((\d+)\)", r"\1\2:\3", line).removeprefix("./") for line in failed.log.splitlines()]
    assert failed.code == build.REJECTED and failed.artifact is None
    assert sum(line.startswith(f"{place.removeprefix('./')}:") and "error" in line for line in lines) == 1, failed.log
    assert "/tmp" not in failed.log


def test_a_missing_entry_is_said(builder, device_kind):
    """With what to write."""
    failed = builder({"kernel.cu": KERNEL.replace('extern "C"', "")}, device_kind)
    assert failed.code == build.ENTRY_NOT_FOUND
    assert 'write extern "C" before it' in failed.log


def test_a_parameter_that_contradicts_the_problem_is_named(builder, device_kind):
    """With its line, and only where the problem says how it calls the entry; what is built is the same."""
    tensors = [wire.TensorSpec(name=name, dtype="float64", shape=("n",)) for name in "ab"]
    call = wire.EntryCall(inputs=(tensors[0],), outputs=(tensors[1],), axes=("n",))
    checked, plain = builder({"kernel.cu": KERNEL}, device_kind, call=call), builder({"kernel.cu": KERNEL}, device_kind)
    assert checked.note.mismatch.startswith("kernel.cu:3: `const float* a` is given the input a, which is float64 (and 1 more);")
    assert plain.note.mismatch == "" and checked.artifact == plain.artifact


# -- a language that runs the submission -------------------------------------------------------------------------------------


def test_what_fails_once_the_submission_has_run_is_its_doing(builder):
    """Whatever the error is: a builder that is broken is tried again, and counts against nobody's quota."""
    for artifact, note in ((b"", None), ("no bytes", wire.BuildNote())):
        attempt = (build.BuildAttempt(code=build.BUILT, log="", artifact=artifact), note)
        failed = builder({"k.py": ""}, "emulated", SimpleNamespace(build=lambda *_, attempt=attempt: attempt))
        assert failed.code == IMPORT_FAILED and "the submission left the build box unusable" in failed.log
    attempt = (build.BuildAttempt(code=build.BUILT, log="", artifact=b"made"), wire.BuildNote())
    assert builder({"k.py": ""}, "emulated", SimpleNamespace(build=lambda *_: attempt)).code == build.BUILT


@pytest.mark.parametrize("error", [OSError("no room"), MemoryError("none left")])
def test_what_fails_before_the_submission_runs_is_the_graders(builder, error):
    """The builder ends with BROKEN."""

    def fails(*_):
        raise error

    with pytest.raises(type(error)):
        builder({"k.py": ""}, "emulated", SimpleNamespace(build=fails))


def test_the_builders_memory_is_closed():
    """To the submission, which has its uid and could make it say that it is broken; the control is an interpreter that builds nothing."""
    tell = "print(ctypes.CDLL(None).prctl(3))"  # PR_GET_DUMPABLE
    building = f"sys.argv = ['build', '/nonexistent', '/nonexistent']; print(build.main()); {tell}"
    for act, expected in ((building, ["5", "0"]), (tell, ["1"])):
        text = f"import ctypes, sys; from sandbox.builder import build; {act}"
        result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300)
        assert result.stdout.split() == expected


# -- several kinds of headers ----------------------------------------------------------------------------------------------

NEEDS_VALUE = '#include <value.h>\nextern "C" int solve() { return VALUE; }\n'


@pytest.fixture
def language(tmp_path):
    """A language with light and full headers, both of them a text."""

    def language(light, full, missing=None):
        ways = []
        for name, text in (("light", light), ("full", full)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "value.h").write_text(text)
            check = (lambda artifact: missing) if name == "light" else (lambda artifact: None)
            ways.append(Headers(name=name, include_dirs=(str(tmp_path / name),), missing=check))
        return SimpleNamespace(headers=lambda job, sources, place: iter(ways), libraries=cuda.libraries, check=cuda.check)

    return language


def test_light_headers_that_do_are_used(builder, device_kind, language):
    """And the note says so."""
    built = builder({"kernel.cu": NEEDS_VALUE}, device_kind, language("#define VALUE 1", "#error full"))
    assert built.code == build.BUILT, built.log
    assert built.note == wire.BuildNote(headers="light")


@pytest.mark.parametrize(
    ("light", "missing", "why"),
    [
        ("", None, "VALUE"),
        ("#error light", None, "#error light"),
        ("#define VALUE 1", "a method is called, but not by name", "a method is called, but not by name"),
        ("#define VALUE 1\n#define solve other", None, "no function 'solve'"),
    ],
    ids=["compile", "preprocess", "missing", "entry"],
)
def test_what_light_headers_do_not_carry_is_built_with_full_ones(builder, language, light, missing, why):
    """Nothing is said of the first try, but in the note."""
    built = builder({"kernel.cpp": NEEDS_VALUE}, "emulated", language(light, "#define VALUE 2", missing))
    assert built.code == build.BUILT, built.log
    assert built.note.headers == "full" and why in built.note.fallback
    assert "error" not in built.log


def test_errors_are_those_of_the_full_headers(builder, device_kind, language):
    """The light ones are never shown: the user has not written them."""
    failed = builder({"kernel.cu": NEEDS_VALUE + "int x = typo;"}, device_kind, language("#error light", "#define VALUE 2"))
    assert failed.code == build.REJECTED
    assert "typo" in failed.log and "light" not in failed.log
    assert "light" in failed.note.fallback


def attempts(*outcomes):
    """Fake attempts, and which headers were tried with which time."""
    tried, remaining = [], list(outcomes)

    def attempt(headers, timeout_s):
        tried.append((headers.name, timeout_s))
        return remaining.pop(0)

    return attempt, tried


FAILED = build.BuildAttempt(
    code=build.REJECTED, log="In file included from k.cu:1:\nlight.h:3:1: error: no such thing\nlight.h:4:1: error: more\n"
)
BUILT_ATTEMPT = build.BuildAttempt(code=build.BUILT, log="", artifact=b"artifact")
LIGHT, FULL = Headers(name="light"), Headers(name="full")


def test_a_try_has_a_time_limit_and_the_last_has_the_box_s():
    """A light build that hangs leaves the full one its time."""
    attempt, tried = attempts(FAILED, BUILT_ATTEMPT)
    notes = []
    attempted, note = build.first_that_does([LIGHT, FULL], attempt, notes.append)
    assert attempted is BUILT_ATTEMPT
    assert tried == [("light", build.ATTEMPT_S), ("full", None)]
    assert note == wire.BuildNote(headers="full", fallback="light.h:3:1: error: no such thing")
    assert notes == [note]  # where the full one is stopped, this has been left


@pytest.mark.parametrize(("settles", "lacks_entry", "decides"), [(True, True, True), (False, True, False), (True, False, False)])
def test_a_build_without_an_entry_is_not_made_twice_where_the_sources_have_none(settles, lacks_entry, decides):
    """Unless the headers may have left it out, or something that they lack was left out of the artifact."""
    lacking = build.BuildAttempt(code=build.ENTRY_NOT_FOUND, log="error: no Python module\n", lacks_entry=lacks_entry)
    attempt, tried = attempts(lacking, BUILT_ATTEMPT)
    attempted, note = build.first_that_does([Headers(name="light", settles_entry=settles), FULL], attempt)
    assert attempted is (lacking if decides else BUILT_ATTEMPT)
    assert [name for name, _ in tried] == (["light"] if decides else ["light", "full"])
    assert note.headers == tried[-1][0]


def test_a_way_that_is_not_there_says_why():
    """A language may have a sentence in the place of headers."""
    attempt, tried = attempts(BUILT_ATTEMPT)
    _, note = build.first_that_does(["the headers have another shape " + "x" * 1000, FULL], attempt)
    assert tried == [("full", None)]
    assert note.fallback.startswith("the headers have another shape") and len(note.fallback) == build.FALLBACK_LIMIT


def test_a_plan_out_of_time_is_stopped_with_all_that_it_runs(tmp_path):
    """Its commands do not go on to take the time of the next."""
    marker = tmp_path / "done"
    slow = steps.CompilerStep(command=("sh", "-c", f"sleep 3; touch {marker}"), directory=tmp_path, outputs=("slow",))
    ran = steps.run([slow], tmp_path, timeout_s=0.3)
    assert not ran.succeeded and ran.log == f"{steps.UNFINISHED}\n"
    assert not marker.exists()


def test_a_command_s_words_reach_it_as_they_are(tmp_path):
    """Through ninja and the shell."""
    words = ("a b", "$HOME", "${x}", "it's", '"', "*", "a\\b", "$in", ":", "#")
    ran = steps.run([steps.CompilerStep(command=("printf", "%s\\n", *words), directory=tmp_path, outputs=("x",))], tmp_path)
    assert ran.succeeded and ran.log.splitlines() == list(words)


def test_a_library_that_is_loaded_before_is_only_named(tmp_path, builder):
    """By the name that it gives itself, wherever it lies; what it has is found at run time."""
    library = tmp_path / "elsewhere.so"
    source = 'extern "C" int answer() { return 42; }'
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", library, "-Wl,-soname,libanswer.so.7"], input=source.encode(), check=True
    )
    language = SimpleNamespace(headers=cuda.headers, libraries=lambda device_kind: [str(library)], check=cuda.check)
    built = builder({"k.cpp": 'extern "C" int answer(); extern "C" int solve() { return answer(); }'}, "emulated", language)
    assert built.code == build.BUILT, built.log
    assert elf.soname(library.read_bytes()) == "libanswer.so.7" and elf.soname(built.artifact) is None
    (tmp_path / "artifact.so").write_bytes(built.artifact)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
    assert ctypes.CDLL(str(tmp_path / "artifact.so")).solve() == 42


def test_the_log_is_in_the_order_of_the_plan(tmp_path):
    """Whoever is first to finish."""
    plan = [
        steps.CompilerStep(command=("sh", "-c", f"sleep {pause}; echo {name}"), directory=tmp_path, outputs=(name,), source=name)
        for name, pause in (("a", 0.2), ("b", 0))
    ]
    assert steps.run(plan, tmp_path).log == "a\nb\n"


def test_what_two_passes_say_of_a_source_is_said_once():
    """By paragraphs; the number of errors is not compared. Another source's words are its own."""
    first, second = "k.cu(1): error: x\n  x\n  ^\n", "k.cu(2): error: y\n  y\n  ^\n"
    logs = [("k.cu", f"{first}\n1 error detected\n"), ("k.cu", f"{first}\n{second}\n2 errors detected\n"), ("j.cu", first)]
    assert steps.merged(logs) == f"{first}\n1 error detected\n{second}{first}"
