"""Measures how long a build takes: the builder's own process, the plain compiler, and `torch.utils.cpp_extension.load`.

    .venv/bin/python -m tools.bench_build [--device both|emulated|nvcc] [--quick] [--rounds 1] [--json FILE]

ours   `python -m sandbox.builder.build`, as it runs in a build box: from the job to the checked artifact, linked.
plain  one command with the same flags; torch's own headers, object only (`-c`). A raw CUDA source is linked too (`-shared`).
load   what ninja runs for the object in the file that `cpp_extension.load` writes; CUDA only, and not its link.

They take turns for every source, so that a busy machine is busy for all. Then the artifact cache is measured, by `bench_cache.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.compilers import emulation, host_compiler, nvcc
from sandbox.compilers.headers import Headers, torch_include_dirs
from sandbox.languages import torch_extension
from sandbox.protocol import wire
from tools.page import ROOT, Table, facts, table_lines

QUICK = (
    "kernels_examples/tril_matmul/correct_2d.cu",
    "tests/extensions/leaky_relu_dispatch.cu",
    "kernels_examples/row_softmax/warp_per_row.cu",
)
SOURCES = (
    *(f"kernels_examples/tril_matmul/{name}.cu" for name in ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory")),
    "kernels_examples/tril_matmul/wmma_float.cu",
    "kernels_examples/row_softmax/torch_online_block.cu",  # warps
    "tests/extensions/flash_attention_minimal.cu",
    "tests/extensions/leaky_relu_dispatch.cu",  # templates
    "tests/extensions/half_intrinsics.cu",
    "tests/extensions/group_norm_swish.cu",  # functions of torch and a kernel
    "tests/extensions/lltm_packed_accessors.cu",  # several kernels and functions
    "kernels_examples/tril_matmul/shared_tiles.cu",  # from here on raw CUDA
    "kernels_examples/tril_matmul/register_blocked.cu",
    "kernels_examples/row_softmax/warp_per_row.cu",
    "kernels_examples/vector_add/grid_stride.cu",
)
TORCH, RAW = "torch_extension", "cuda"
OURS, PLAIN, LOAD = "ours", "plain", "load"
# For the time left only: seconds of a machine with nothing else to do.
GUESS_S = {
    ("emulated", TORCH, OURS): 4,
    ("emulated", TORCH, PLAIN): 25,
    ("nvcc", TORCH, OURS): 12,
    ("nvcc", TORCH, PLAIN): 75,
    ("nvcc", TORCH, LOAD): 75,
}
GUESS_RAW_S = 3
RAW_RATIO = 1.2
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source to build, and where its files are put."""

    path: Path
    language: str

    @property
    def name(self) -> str:
        """Short, and the only one."""
        return f"{self.path.parent.name}/{self.path.stem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """One build. failed: what the compiler said; headers: as the builder notes."""

    time_s: float
    failed: str = ""
    headers: str = ""


Builder = Callable[[Source, Path], Took]


def main() -> int:
    """Measure and print; 1 where a build of ours failed and the plain compiler's did not."""
    parser = argparse.ArgumentParser(description="Measures how long builds take: ours, the plain compiler's, and cpp_extension.load's.")
    parser.add_argument("--device", default="both", choices=("both", "emulated", "nvcc"))
    parser.add_argument("--quick", action="store_true", help="three sources")
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--no-cache", action="store_true", help="leave out the artifact cache")
    given = parser.parse_args()
    sources = [read(ROOT / path) for path in (QUICK if given.quick else SOURCES)]
    devices = ("emulated", "nvcc") if given.device == "both" else (given.device,)
    if "nvcc" in devices and shutil.which("nvcc") is None:
        say("nvcc is not on the PATH; measuring the emulated device only")
        devices = ("emulated",)
    plan = [(source, device, builders(device, source.language)) for source in sources for device in devices]
    took = run(plan, given.rounds)
    show(took)
    if given.json is not None:
        given.json.write_text(json.dumps([{**row(key), **cell(results)} for key, results in took.items()], indent=1) + "\n", "utf-8")
    if not given.no_cache:
        measure_cache()
    return int(any(one[OURS].failed and not one[PLAIN].failed for one in took.values()))


def read(path: Path) -> Source:
    """Look at what a source includes."""
    return Source(path=path, language=TORCH if "<torch/" in path.read_text("utf-8") else RAW)


def builders(device: str, language: str) -> dict[str, Builder]:
    """Who builds for this device."""
    if device == "emulated":
        return {OURS: ours("emulated"), PLAIN: plain_gcc}
    return {OURS: ours("cuda"), PLAIN: plain_nvcc, **({LOAD: load} if language == TORCH else {})}


Key = tuple[Source, str]


def run(plan: Sequence[tuple[Source, str, dict[str, Builder]]], rounds: int) -> dict[Key, dict[str, Took]]:
    """All of the plan, one build at a time. In each round another one begins."""
    found: dict[Key, dict[str, Took]] = {}
    guess_s = [sum(GUESS_S.get((device, source.language, name), GUESS_RAW_S) for name in who) * rounds for source, device, who in plan]
    say(f"{len(plan)} rows, about {sum(guess_s) / 60:.0f} minutes")
    for number, (source, device, who) in enumerate(plan):
        tries: dict[str, list[Took]] = {name: [] for name in who}
        for turn in range(rounds):
            for name in [*list(who)[turn % len(who) :], *list(who)[: turn % len(who)]]:
                with tempfile.TemporaryDirectory(prefix="bench-") as place:
                    tries[name].append(who[name](source, Path(place)))
        found[source, device] = {name: median(several) for name, several in tries.items()}
        words = "  ".join(f"{name} {seconds(took)}" for name, took in found[source, device].items())
        say(f"[{number + 1}/{len(plan)}, {sum(guess_s[number + 1 :]) / 60:.0f} min left] {device} {source.name}: {words}")
    return found


def median(several: Sequence[Took]) -> Took:
    """The middle one; one that failed, if any did."""
    failed = [took for took in several if took.failed]
    return failed[0] if failed else sorted(several, key=lambda took: took.time_s)[len(several) // 2]


def ours(device_kind: str) -> Builder:
    """Build by the builder."""

    def build(source: Source, place: Path) -> Took:
        src, out = place / "src", place / "out"
        (src / "files").mkdir(parents=True)
        out.mkdir()
        shutil.copy(source.path, src / "files")
        entry = "forward" if source.language == TORCH else raw_entry(source.path)
        job = wire.BuildJob(language=source.language, entry=entry, device_kind=device_kind, sources=(source.path.name,))
        (src / "job.json").write_bytes(wire.encode(job))
        took = timed([sys.executable, "-m", "sandbox.builder.build", str(src), str(out)], ROOT)
        note = wire.decode((out / "note.json").read_bytes()) if (out / "note.json").exists() else wire.BuildNote()
        assert isinstance(note, wire.BuildNote)
        return Took(time_s=took.time_s, failed=took.failed, headers=note.headers)

    return build


def raw_entry(path: Path) -> str:
    """The entry that the problem of a raw source names."""
    lines = (path.parent / "problem.toml").read_text("utf-8").splitlines()
    return next((line.split('"')[1] for line in lines if line.startswith("entry")), "solve")


def full_headers(source: Source, *, emulated: bool) -> Headers:
    """The options of the plain compiler: torch's own headers."""
    if source.language == RAW:
        return Headers()
    defines = torch_extension.DEFINES if emulated else (*torch_extension.DEFINES, *torch_extension.NVCC_DEFINES)
    return Headers(include_dirs=tuple(torch_include_dirs()), defines=defines)


def plain_gcc(source: Source, place: Path) -> Took:
    """Compile by g++; the rewriting for the emulated device is not timed."""
    try:
        (place / "kernel.cpp").write_text(emulation.translate(source.path.read_text("utf-8"), source.path.name), "utf-8")
    except emulation.Unsupported as refusal:
        return Took(time_s=0.0, failed=refusal.sentence)
    includes = host_compiler.include_flags(full_headers(source, emulated=True), device=emulation.include_dirs())
    end = ["-c"] if source.language == TORCH else ["-shared"]
    return timed(["g++", *emulation.compile_flags(), *includes, *end, "kernel.cpp", "-o", "kernel.out"], place)


def plain_nvcc(source: Source, place: Path) -> Took:
    """Compile by nvcc, whole."""
    flags = [*nvcc.HOST_FLAGS, "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", f"-arch={nvcc.ARCHITECTURE}"]
    includes = host_compiler.include_flags(full_headers(source, emulated=False), device=())
    end = ["-c"] if source.language == TORCH else ["-shared"]
    return timed(["nvcc", *flags, *includes, *end, str(source.path), "-o", "kernel.out"], place)


def load(source: Source, place: Path) -> Took:
    """Compile as `torch.utils.cpp_extension.load` does. It refuses as a whole where torch has no CUDA, but writes its file for ninja."""
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", nvcc.ARCHITECTURE.removeprefix("sm_").replace("0", ".0"))
    from torch.utils import cpp_extension

    compiler = shutil.which("nvcc")
    assert compiler is not None
    cpp_extension.CUDA_HOME = os.environ.get("CUDA_HOME") or str(Path(compiler).resolve().parents[1])
    cpp_extension._write_ninja_file_to_build_library(
        path=str(place / "build.ninja"),
        name="kernel",
        sources=[str(source.path)],
        extra_cflags=[],
        extra_cuda_cflags=[],
        extra_sycl_cflags=[],
        extra_ldflags=[],
        extra_include_paths=[],
        with_cuda=True,
        with_sycl=False,
        is_standalone=False,
    )
    made = next(
        line.split()[1].rstrip(":")
        for line in (place / "build.ninja").read_text().splitlines()
        if line.startswith("build ") and ".o:" in line
    )
    return timed([str(Path(sys.executable).parent / "ninja"), made], place)


def timed(command: Sequence[str], directory: Path) -> Took:
    """Run one command to its end."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S)
    time_s = time.monotonic() - begun
    return Took(time_s=time_s, failed="" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:] or f"exit code {done.returncode}")


def show(took: dict[Key, dict[str, Took]]) -> None:
    """A line for every source and device, and the means."""
    table = Table(headings=("device", "source", "lines", "headers", "ours, s", "plain, s", "load, s", "plain/ours", "load/ours"))
    for (source, device), results in took.items():
        times = (seconds(results[name]) if name in results else "" for name in (OURS, PLAIN, LOAD))
        lines = len(source.path.read_text("utf-8").splitlines())
        found = (ratio_text(results, PLAIN), ratio_text(results, LOAD))
        table.add(device, source.name, lines, results[OURS].headers or "raw", *times, *found)
    head = facts(f"python -m tools.bench_build {shlex.join(sys.argv[1:])}")
    say("\n".join(["", *table_lines(("what", "which"), head.items()), "", *table.lines()]))
    say("")
    for device in dict.fromkeys(device for _, device in took):
        for other in (LOAD, PLAIN):
            say_mean(f"{device}: torch extensions, {other}/ours", ratios(took, device, TORCH, other))
        raw = [1 / ratio for ratio in ratios(took, device, RAW, PLAIN)]
        say_mean(f"{device}: raw CUDA, ours/plain, at most {RAW_RATIO} wanted", raw)
    for (source, device), results in took.items():
        for name, one in results.items():
            if one.failed:
                say(f"{device} {source.name}: {name} failed: {one.failed.strip().splitlines()[-1][:200]}")


def ratios(took: dict[Key, dict[str, Took]], device: str, language: str, other: str) -> list[float]:
    """How much longer another one took, for each source that both built."""
    rows = [results for (source, where), results in took.items() if (where, source.language) == (device, language)]
    return [found for results in rows if (found := ratio(results, other)) is not None]


def ratio(results: dict[str, Took], other: str) -> float | None:
    """How many times as long as ours; None where one did not build."""
    if other not in results or results[other].failed or results[OURS].failed:
        return None
    return results[other].time_s / results[OURS].time_s


def ratio_text(results: dict[str, Took], other: str) -> str:
    """For the table."""
    found = ratio(results, other)
    return "" if found is None else f"{found:.1f}"


def seconds(took: Took) -> str:
    """For the table."""
    return "failed" if took.failed else f"{took.time_s:.1f}"


def say_mean(what: str, values: Sequence[float]) -> None:
    """Print a geometric mean, and the worst."""
    if values:
        spread = f"from {min(values):.2f} to {max(values):.2f}, {len(values)} sources"
        say(f"{what}: geometric mean {statistics.geometric_mean(values):.2f} ({spread})")


def row(key: Key) -> dict[str, str]:
    """For the file."""
    source, device = key
    return {"source": str(source.path.relative_to(ROOT)), "language": source.language, "device": device}


def cell(results: dict[str, Took]) -> dict[str, object]:
    """For the file: times in seconds, null where it failed."""
    return {"headers": results[OURS].headers, **{f"{name}_s": None if took.failed else took.time_s for name, took in results.items()}}


def measure_cache() -> None:
    """The same source again: by the artifact cache, in the pipeline."""
    say("\nthe same source again, through the artifact cache:")
    subprocess.run([sys.executable, "-m", "tools.bench_cache"], cwd=ROOT, check=False, timeout=TIMEOUT_S)


def say(line: str) -> None:
    """Print, also into a pipe, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
