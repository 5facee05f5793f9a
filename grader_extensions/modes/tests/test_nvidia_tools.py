"""The boxes of profilers, by what compute-sanitizer, ncu and torch leave. Programs that behave like them take their place."""

import stat
import sys

import pytest

from grader_extensions.emulated_cuda.launch_log import KIND_LIMIT, logged
from grader_extensions.modes.box import nvidia_tools
from grader_extensions.modes.box.torch_profile import _launches_in
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome

RUNNER = (sys.executable, "-c", "print('hello from the kernel')")
# Takes the tool's options, runs the command that follows, then does what is asked.
FAKE = """#!{python}
import subprocess, sys
words, options = sys.argv[1:], {{}}
while words and words[0].startswith("--"):
    name = words.pop(0)
    options.setdefault(name, []).append("" if name in ("--force-overwrite", "--csv") else words.pop(0))
ended = subprocess.run(words).returncode if words else 0
{after}
sys.exit(ended)
"""
SANITIZER_LOG = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add(float*)+0x90 in kernel.cu:12
========= ERROR SUMMARY: 2 errors
"""
CSV = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","square(float *)","GPU Speed Of Light Throughput","Memory Throughput","%","88.10"
"0","7","square(float *)","GPU Speed Of Light Throughput","Compute (SM) Throughput","%","31.00"
"0","7","square(float *)","Occupancy","Achieved Occupancy","%","46.20"
"""
NCU = f"""
if "--import" in options:
    print({CSV!r} if "--csv" in options else "square (256, 1, 1)")
else:
    open(options["--export"][0], "wb").write(b"report")
"""


@pytest.fixture
def run_tool(tmp_path, monkeypatch, capfd):
    """Run a tool whose program does `after`; the tool's entry, the files and what was printed."""

    def run(name: str, after: str | None):
        out = tmp_path / "out"
        out.mkdir()
        program = tmp_path / nvidia_tools.TOOLS[name].program
        if after is not None:
            program.write_text(FAKE.format(python=sys.executable, after=after))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(nvidia_tools, "NSIGHT", tmp_path / "nowhere")
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "argv", ["nvidia_tools", name, str(out), *RUNNER])
        assert nvidia_tools.main() == 0
        note = wire.decode((out / "profile.json").read_bytes())
        assert isinstance(note, wire.ProfileNote)
        (tool,) = note.profile.tools
        assert tool.name == name and set(note.files.values()) <= {name}
        return tool, note.files, out, capfd.readouterr().out

    return run


def sanitizer(log: str) -> str:
    return f"open(options['--log-file'][0], 'w').write({log!r})"


def test_memchecks_errors_are_counted_and_the_first_is_named(run_tool) -> None:
    """The log is a file; what the kernel prints goes where it goes without a tool."""
    tool, files, out, printed = run_tool("compute-sanitizer", sanitizer(SANITIZER_LOG))
    assert tool.outcome is ToolOutcome.RAN
    assert tool.detail == "memcheck found 2 errors; the first: Invalid __global__ write of size 4 bytes"
    assert list(files) == ["compute_sanitizer.txt"] and "kernel.cu:12" in (out / "compute_sanitizer.txt").read_text()
    assert printed == "hello from the kernel\n"


def test_a_sanitizer_that_can_not_attach_has_failed(run_tool) -> None:
    log = "========= COMPUTE-SANITIZER\n========= Error: process didn't terminate successfully\n"
    tool, files, *_ = run_tool("compute-sanitizer", sanitizer(log))
    assert tool.outcome is ToolOutcome.FAILED and "didn't terminate successfully" in tool.detail
    assert list(files) == ["compute_sanitizer.txt"]


def test_ncu_leaves_its_report_a_text_and_a_csv(run_tool) -> None:
    tool, files, out, _ = run_tool("ncu", NCU)
    assert tool.outcome is ToolOutcome.RAN
    assert tool.detail == "square(float *): 46.20 % achieved occupancy, 31.00 % compute, 88.10 % memory"
    assert list(files) == ["ncu.ncu-rep", "ncu_details.txt", "ncu_details.csv"]
    assert (out / "ncu_details.txt").read_text() == "square (256, 1, 1)\n"


def test_counters_that_are_closed_are_not_available(run_tool) -> None:
    tool, files, *_ = run_tool("ncu", "print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')")
    assert tool.outcome is ToolOutcome.UNAVAILABLE and "NVreg_RestrictProfilingToAdminUsers=0" in tool.detail and files == {}


@pytest.mark.parametrize("name", nvidia_tools.TOOLS)
def test_a_tool_that_is_not_there_is_not_available(run_tool, name) -> None:
    tool, files, _, printed = run_tool(name, None)
    assert tool.outcome is ToolOutcome.UNAVAILABLE and "CUDA toolkit" in tool.detail and files == {} and printed == ""


@pytest.mark.parametrize(
    "mischief",
    [
        "import os; os.symlink('/etc/passwd', options['--log-file'][0])",
        "import os; os.mkfifo(options['--log-file'][0])",
        "import os; os.mkdir(options['--log-file'][0])",
        "import os; os.rename(options['--log-file'][0].rpartition('/')[0], '/proc/self/none')",
    ],
)
def test_what_a_kernel_puts_in_the_logs_place_is_not_read(run_tool, mischief) -> None:
    """A link, a pipe that nobody writes to, a directory. The control is the first test, where it is a file."""
    tool, *_ = run_tool("compute-sanitizer", mischief)
    assert tool.outcome is ToolOutcome.FAILED and "root:" not in tool.detail


def event(name="k", grid=(2, 1, 1), dur=2.5, cat="kernel", **args):
    """As CUPTI's events are in a Chrome trace of torch's profiler."""
    about = {"grid": list(grid), "block": [128, 1, 1], "shared memory": 16, **args}
    return {"ph": "X", "cat": cat, "name": name, "dur": dur, "ts": 1.0, "args": about}


def test_launches_of_a_gpu_come_from_its_trace():
    """Those alike are one entry with their whole time in nanoseconds; copies and calls of the host are none."""
    runtime_events = [event("cudaLaunchKernel", cat="cuda_runtime"), event("Memcpy", cat="gpu_memcpy")]
    events = [event(), *runtime_events, event(dur=0.5), event(grid=(3, 1, 1))]
    first, second = _launches_in({"traceEvents": events})
    assert first == wire.KernelLaunch(kernel="k", grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=16, count=2, duration_ns=3000)
    assert (second.grid, second.count, second.duration_ns) == ((3, 1, 1), 1, 2500)


def test_a_trace_of_very_many_kernels_is_cut():
    launches = list(_launches_in({"traceEvents": [event(f"k{number}") for number in range(KIND_LIMIT + 9)]}))
    assert len(launches) == KIND_LIMIT and list(_launches_in({})) == []


def test_a_library_without_a_place_for_the_hook_is_left_alone():
    """Such as one of a real device; the log is empty then."""
    import ctypes

    library = ctypes.CDLL(None)
    with logged([library]) as log:
        pass
    assert log.launches() == () and log.count == 0
