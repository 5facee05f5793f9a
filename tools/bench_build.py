"""Measures how long builds take: ours, the plain compiler's, and `torch.utils.cpp_extension.load`'s.

    python -m tools.bench_build [--quick]

ours   `python -m sandbox.builder.build`, as it runs in a build box: from the job to the checked artifact, linked.
plain  one command with the same flags; torch's own headers, object only (`-c`). A raw CUDA source is linked too (`-shared`).
load   what ninja runs for the object in the file that `cpp_extension.load` writes; CUDA only, and not its link.

They take turns for every source, so that a busy machine is busy for all.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from grader_extensions.emulated_cuda import emulation
from sandbox.compilers import host_compiler, nvcc
from sandbox.compilers.headers import Headers, torch_include_dirs
from sandbox.languages import torch_extension
from sandbox.protocol import wire
from sandbox.protocol.devices import DEVICES, DeviceKind
from tools.page import ROOT, Table, arguments_of, facts, table_lines

TRIL, TORCH = "kernels_examples/tril_matmul", "grader_extensions/fast_torch_build/tests/torch_extensions"
SOURCES = (
    f"{TRIL}/correct_2d.cu",
    f"{TORCH}/leaky_relu_dispatch.cu",  # templates
    "kernels_examples/row_softmax/warp_per_row.cu",  # raw CUDA
    *(f"{TRIL}/{name}.cu" for name in ("correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")),
    "kernels_examples/row_softmax/torch_online_block.cu",  # warps
    f"{TORCH}/flash_attention_minimal.cu",
    f"{TORCH}/half_intrinsics.cu",
    f"{TORCH}/group_norm_swish.cu",  # functions of torch and a kernel
    f"{TORCH}/lltm_packed_accessors.cu",  # several kernels and functions
    f"{TORCH}/transformer_block.cu",  # 400 lines
    f"{TRIL}/shared_tiles.cu",  # from here on raw CUDA
    f"{TRIL}/register_blocked.cu",
    "kernels_examples/vector_add/grid_stride.cu",
)
QUICK_COUNT = 3
TORCH, RAW = "torch_extension", "cuda"
OURS, PLAIN, LOAD = "ours", "plain", "load"
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """A build: its seconds, the compiler's message if it failed, and the headers that the builder notes."""

    time_s: float
    failed: str = ""
    headers: str = ""

    def __str__(self) -> str:
        return "failed" if self.failed else f"{self.time_s:.1f}"


Builder = Callable[[Path, Path], Took]  # a source, and an empty directory
Results = dict[tuple[Path, str], dict[str, Took]]  # by source and device, then by builder


def language_of(source: Path) -> str:
    """Return the language of a source."""
    return TORCH if "<torch/" in source.read_text("utf-8") else RAW


def builders(device: str, language: str) -> dict[str, Builder]:
    """Return the builders for a device."""
    if device == "emulated":
        return {OURS: partial(ours, "emulated"), PLAIN: plain_gcc}
    return {OURS: partial(ours, "cuda"), PLAIN: plain_nvcc} | ({LOAD: load} if language == TORCH else {})


def measure(sources: Sequence[Path], devices: Sequence[str]) -> Results:
    """Build each source for each device, one build at a time."""
    results: Results = {}
    for source in sources:
        for device in devices:
            results[source, device] = {}
            for name, build in builders(device, language_of(source)).items():
                with tempfile.TemporaryDirectory(prefix="bench-") as place:
                    results[source, device][name] = build(source, Path(place))
            words = "  ".join(f"{name} {took}" for name, took in results[source, device].items())
            sys.stderr.write(f"[{len(results)}/{len(sources) * len(devices)}] {device} {source.stem}: {words}\n")
    return results


def ours(device_kind: str, source: Path, place: Path) -> Took:
    """Build by the builder."""
    src, out = place / "src", place / "out"
    (src / "files").mkdir(parents=True)
    out.mkdir()
    shutil.copy(source, src / "files")
    language = language_of(source)
    entry = "forward" if language == TORCH else tomllib.loads((source.parent / "problem.toml").read_text("utf-8")).get("entry", "solve")
    job = wire.BuildJob(language=language, entry=entry, device_kind=device_kind, sources=(source.name,))
    (src / "job.json").write_bytes(wire.encode(job))
    took = timed([sys.executable, "-m", "sandbox.builder.build", str(src), str(out)], ROOT)
    note = wire.decode((out / "note.json").read_bytes()) if (out / "note.json").exists() else wire.BuildNote()
    assert isinstance(note, wire.BuildNote)
    return replace(took, headers=note.headers)


def plain_gcc(source: Path, place: Path) -> Took:
    """Compile by g++; the translation for the emulated device is not timed."""
    try:
        (place / "kernel.cpp").write_text(emulation.translate(source.read_text("utf-8"), source.name), "utf-8")
    except emulation.Unsupported as refusal:
        return Took(time_s=0.0, failed=refusal.sentence)
    command = ["g++", *emulation.compile_flags("20"), *_flags(source, torch_extension.DEFINES, emulation.include_dirs())]
    return timed([*command, "kernel.cpp", "-o", "kernel.out"], place)


def plain_nvcc(source: Path, place: Path) -> Took:
    """Compile by nvcc, whole."""
    command = ["nvcc", "-std=c++20", *nvcc.HOST_FLAGS, "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", f"-arch={nvcc.ARCHITECTURE}"]
    command += _flags(source, (*torch_extension.DEFINES, *DEVICES[DeviceKind.CUDA].torch_defines), ())
    return timed([*command, str(source), "-o", "kernel.out"], place)


def _flags(source: Path, defines: Sequence[str], device_dirs: Sequence[Path]) -> list[str]:
    """Return the options for torch's own headers, and the end of the compilation."""
    if language_of(source) == RAW:
        return [*host_compiler.include_flags(Headers(), device=device_dirs), "-shared"]
    headers = Headers(include_dirs=tuple(torch_include_dirs()), defines=tuple(defines))
    return [*host_compiler.include_flags(headers, device=device_dirs), "-c"]


def load(source: Path, place: Path) -> Took:
    """Compile as `torch.utils.cpp_extension.load` does. It refuses where torch has no CUDA, but writes its file for ninja."""
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", nvcc.ARCHITECTURE.removeprefix("sm_").replace("0", ".0"))
    from torch.utils import cpp_extension

    compiler = shutil.which("nvcc")
    assert compiler is not None
    cpp_extension.CUDA_HOME = os.environ.get("CUDA_HOME") or str(Path(compiler).resolve().parents[1])
    empty = ("extra_cflags", "extra_cuda_cflags", "extra_sycl_cflags", "extra_ldflags", "extra_include_paths")
    cpp_extension._write_ninja_file_to_build_library(
        path=str(place / "build.ninja"),
        name="kernel",
        sources=[str(source)],
        with_cuda=True,
        with_sycl=False,
        is_standalone=False,
        **{name: [] for name in empty},
    )
    lines = (place / "build.ninja").read_text().splitlines()
    target = next(line.split()[1].rstrip(":") for line in lines if line.startswith("build ") and ".o:" in line)
    return timed([str(Path(sys.executable).parent / "ninja"), target], place)


def timed(command: Sequence[str], directory: Path) -> Took:
    """Run a command to its end."""
    start_s = time.monotonic()
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S)
    text = (result.stdout + result.stderr)[-2000:] or f"exit code {result.returncode}"
    return Took(time_s=time.monotonic() - start_s, failed=text if result.returncode else "")


def page(results: Results) -> list[str]:
    """Return a row for every source and device, the means, and the failures."""
    table = Table(headings=("device", "source", "lines", "headers", "ours, s", "plain, s", "load, s"))
    means = defaultdict[str, list[float]](list)
    failures = []
    for (source, device), row in results.items():
        name, line_count = f"{source.parent.name}/{source.stem}", len(source.read_text("utf-8").splitlines())
        table.add(device, name, line_count, row[OURS].headers or "raw", *(row.get(key, "") for key in (OURS, PLAIN, LOAD)))
        for builder, took in row.items():
            if took.failed:
                failures.append(f"{device} {name}: {builder} failed: {took.failed.strip().splitlines()[-1][:200]}")
            elif builder != OURS and not row[OURS].failed:
                means[f"{device}, {language_of(source)}: {builder}/ours"].append(took.time_s / row[OURS].time_s)
    lines = [
        f"{text}: geometric mean {statistics.geometric_mean(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} sources)"
        for text, values in means.items()
    ]
    head = facts("python -m tools.bench_build", sys.argv[1:])
    return [*table_lines(("fact", "value"), head.items()), "", *table.lines(), "", *lines, *failures]


def main() -> int:
    """Measure and print; 1 where a build of ours failed and the plain compiler's did not."""
    options = arguments_of("tools.bench_build", __doc__, None, {"quick": (False, "three sources")})
    devices = ["emulated", "nvcc"] if shutil.which("nvcc") else ["emulated"]
    if len(devices) == 1:
        sys.stderr.write("nvcc is not on the PATH; measuring the emulated device only\n")
    results = measure([ROOT / path for path in SOURCES[: QUICK_COUNT if options.quick else None]], devices)
    sys.stdout.write("\n".join(page(results)) + "\n")
    return int(any(row[OURS].failed and not row[PLAIN].failed for row in results.values()))


if __name__ == "__main__":
    sys.exit(main())
