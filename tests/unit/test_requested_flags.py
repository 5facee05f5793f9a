"""Which flags of a submission count: an allow list, and a remark on those that do not."""

from __future__ import annotations

import pytest

from sandbox.compilers import requested_flags
from sandbox.compilers.headers import Headers
from sandbox.compilers.requested_flags import RequestedFlags


def read(*, host=(), device=(), linker=(), emulated=False) -> RequestedFlags:
    return requested_flags.read(host=host, device=device, linker=linker, emulated=emulated, is_own=lambda path: not path.is_absolute())


@pytest.mark.parametrize(
    ("flag_words", "words"),
    [
        (["--use_fast_math"], ["--use_fast_math"]),
        (["-use_fast_math"], ["--use_fast_math"]),
        (["--use_fast_math -ftz=true"], ["--use_fast_math", "--ftz=true"]),
        (["-prec-div", "false"], ["--prec-div=false"]),
        (["--maxrregcount=64"], ["--maxrregcount=64"]),
        (["-maxrregcount", "64"], ["--maxrregcount=64"]),
        (["--extra-device-vectorization"], ["--extra-device-vectorization"]),
        (["-Xptxas", "-v,-dlcm=ca"], ["-Xptxas=-v", "-Xptxas=-dlcm=ca"]),
        (["--ptxas-options=-O2"], ["-Xptxas=-O2"]),
    ],
)
def test_flags_that_optimise_device_code_reach_nvcc(flag_words, words):
    """In one spelling, and without a remark; on the emulated device they change nothing, and that is said."""
    assert (read(device=flag_words).device, read(device=flag_words).remarks("x")) == (words, ())
    emulated = read(device=flag_words, emulated=True)
    assert emulated.device == [] and "not used" in emulated.remarks("x")[0]


def test_what_is_always_done_needs_no_words():
    always = "-O3 -std=c++20 -lineinfo --expt-relaxed-constexpr --extended-lambda -Xcompiler -fPIC,-Wall -w -Wno-x"
    assert read(device=always.split()) == RequestedFlags(standard="20")


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize(
    ("flag_words", "standard"),
    [(["-std=c++17"], "17"), (["--std", "c++20"], "20"), (["-std=gnu++17"], "17"), (["-std=c++20 -std=c++17"], "17"), (["-O3"], None)],
)
def test_the_last_standard_is_that_of_all_files(where, flag_words, standard):
    """For nvcc and g++ alike; where none is named it is the language's own."""
    flags = read(**{where: flag_words})
    assert (flags.standard, flags.unused) == (standard, [])
    assert flags.headers(Headers(standard="20")).standard == (standard or "20")


@pytest.mark.parametrize("standard", ["17", "20"])
@pytest.mark.parametrize(
    ("log", "names_flag"),
    [
        ("k.cu:2:11: error: ‘std::floating_point’ has not been declared\n    2 | template <std::floating_point T>\n", True),
        ('k.cu(1): error: identifier "concept" is undefined\n  template <class T> concept C = true;\n', True),
        ('k.cu(1): error: expected a ";"\n  template <class T> void k(T* x) requires (sizeof(T) > 2) {}\n', True),
        ("k.cu:1:1: error: ‘x’ was not declared\n    1 | y = x;\nk.cu:9:1: error: ‘concept’ does not name a type\n", False),
        ("k.cu(9): warning #3288-D: explicit lambda template parameters are a C++20 feature\nk.cu(3): error: no x\n", False),
    ],
)
def test_an_error_in_cpp20_names_the_flag(log, names_flag, standard):
    """The first one, whose words or line are of C++20; any other is left as it is."""
    explained = requested_flags.with_standard(log, standard)
    assert (explained != log) is (names_flag and standard == "17")
    assert explained == log or explained.splitlines()[0].endswith("// grader: flags=-std=c++20 is needed")


@pytest.mark.parametrize(
    "flag_words",
    [
        ["-arch=sm_70"],
        ["-gencode", "arch=compute_70,code=sm_70"],
        ["--gpu-architecture", "sm_70"],
        ["-std=c++14"],
        ["-std=c++17x"],
        ["-O1"],
        ["-I/usr/include"],
        ["-march=native"],
        ["-G"],
        ["--maxrregcount=0"],
        ["--use_fast_math=x"],
        ["-D'a"],
    ],
)
def test_a_flag_that_is_not_used_is_reported(flag_words):
    flags = read(device=flag_words)
    assert flags.device == [] and flags.macros == {} and flags.include_dirs == []
    assert flags.remarks("mine") == (f"mine: {' '.join(flag_words)}: {requested_flags.NOT_USED}",)


@pytest.mark.parametrize("where", ["host", "device", "linker", "directive"])
@pytest.mark.parametrize(
    "flag_words",
    [
        ["-fplugin=/tmp/x.so"],
        ["-wrapper", "/tmp/x"],
        ["@/tmp/x"],
        ["--options-file", "/tmp/x"],
        ["--options-file=/tmp/x"],
        ["-optf", "/tmp/x"],
        ["-include", "/etc/passwd"],
        ["-imacros", "/etc/passwd"],
        ["-isystem", "/etc"],
        ["-B/tmp"],
        ["-specs=/tmp/x"],
        ["-o", "/tmp/x"],
        ["-ccbin", "/tmp/x"],
        ["--compiler-bindir=/tmp"],
        ["-Wl,--wrap=memcmp"],
        ["-Wp,-MD,/tmp/x"],
        ["-Wa,-a=/tmp/x"],
        ["-Xcompiler", "-wrapper,/tmp/x"],
        ["-Xcompiler=-fplugin=/tmp/x"],
        ["-Xptxas", "--output-file=/tmp/x"],
        ["-Xptxas", "-v,-o=/tmp/x"],
        ["-Xlinker", "-T/tmp/x"],
        ["-fuse-ld=/tmp/x"],
        ["-l../x"],
        ["-l", "/tmp/x.so"],
        ["-DX=1\n  command = sh"],
        ["-D", "X y z"],
        ["-MF/tmp/x"],
        ["-fdump-tree-all=/tmp/x"],
        ["-save-temps"],
        ["--keep-dir", "/tmp"],
        ["--dryrun"],
    ],
)
def test_nothing_that_reads_writes_or_starts_a_file_gets_through(where, flag_words):
    """Whichever list it stands in, in one word or two, and in a line of a source."""
    line = f"// grader: flags={' '.join(flag_words)}".replace("\n", " ")
    flags = requested_flags.directed([line], emulated=False) if where == "directive" else read(**{where: flag_words})
    # `-DX=1` before a line break is a macro of its own; what follows it is not.
    assert flags == RequestedFlags(macros=flags.macros, unused=flags.unused) and set(flags.macros) <= {"X"}
    assert "\n" not in "".join(filter(None, flags.macros.values())) and flags.unused


def test_macros_and_directories_are_for_every_compiler():
    """Later ones count; `-U` takes back one of the compiler's own."""
    flags = read(host=["-DN=1", "-Iparts"], device=["-DN=2", "-U__CUDA_NO_HALF_OPERATORS__", "-D", "M"])
    assert flags.include_dirs == ["parts"] and flags.remarks("x") == ()
    assert flags.defines(("__CUDA_NO_HALF_OPERATORS__", "A=1")) == ("A=1", "N=2", "M")


def test_libraries_are_named_without_a_path():
    assert read(linker=["-lcublas", "-l", "cudnn"]).libraries == ["-lcublas", "-lcudnn"]
    emulated = read(linker=["-lcublas"], emulated=True)
    assert emulated.libraries == [] and "-lcublas: not used" in emulated.remarks("x")[0]
