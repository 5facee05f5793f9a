"""Imports a submitted module in the build box, in a process of its own, so that what it compiles is compiled.

Usage: `python_import PLACE REPORT MAIN`; PLACE has job.json and module/sources, in which MAIN is the path of the main file. What it leaves
in REPORT is a claim: it shares its process with the submission.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandbox.builder.python_compile import CompileFailed, Compiling
from sandbox.compilers import build_result
from sandbox.compilers.build_result import BUILT, ENTRY_NOT_FOUND, IMPORT_FAILED, UNSUPPORTED
from sandbox.languages import python_module, python_stubs
from sandbox.protocol import box_modules, wire
from sandbox.protocol.devices import device_info

# What people write kernels with; those that are installed are named to who asks for another.
PACKAGES = (
    *("torch", "triton", "numba", "numpy", "einops", "cupy", "cuda.bindings"),
    *("cuda.tile", "cutlass", "tilelang", "helion", "flashinfer"),
)
REFERENCE = "reference"
LISTED_COUNT = 12
SIMILARITY = 0.8  # of 1: two letters exchanged in a name of seven are 0.86
HIP_COMPILER = "hipcc"
# What torch, Triton, Numba and CuPy say where there is no GPU: none is in a build box.
WANTS_GPU = (
    "no cuda gpus are available",
    "found no nvidia driver",
    "0 active drivers",
    "cuda driver library cannot be found",
    "cuda_error_no_device",
    "cudaerrornodevice",
    "cudaerrorinsufficientdriver",
    "no cuda-capable device",
    "cuda is not available",
    "libcuda.so",
)


def missing_module(error: ModuleNotFoundError, modules: Sequence[str]) -> tuple[int, str] | None:
    """The builder's exit code and a sentence; None where the exception names no module. modules: names that the submission can import from
    its files and the problem's."""
    if not error.name:
        return None
    files = ", ".join(modules[:LISTED_COUNT])
    top = error.name.partition(".")[0]
    if top == REFERENCE:
        return IMPORT_FAILED, f"no module '{REFERENCE}': a submission is not given the reference; it can import {files}"
    packages = {name.partition(".")[0] for name in modules}
    is_package = top in {name.partition(".")[0] for name in PACKAGES}
    close = partial(difflib.get_close_matches, n=1, cutoff=SIMILARITY)
    similar = [] if is_package else close(error.name, modules) or close(top, sorted(packages))
    if top in packages or similar:
        advice = f"; did you mean '{similar[0]}'?" if similar and similar[0] != error.name else ""
        return IMPORT_FAILED, f"no module '{error.name}'; the files can be imported as {files}{advice}"
    there = ", ".join(available())
    return (
        UNSUPPORTED,
        f"this grader does not have the Python module '{error.name}'; it has {there}; if it is a file of yours, submit it too",
    )


def available() -> list[str]:
    """Which of PACKAGES are installed."""
    return [name for name in PACKAGES if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def main() -> None:
    """Import, look for the entry, report; the process ends at once, whatever threads the module has left."""
    place, report, main_path = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    job = wire.decode((place / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    # Import the main file: exit code, log, and what is said of its extensions.
    module = python_module.ModuleDirectory(directory=place / "module")
    compiling = Compiling(job, module.sources, extensions=module.extensions, work=place / "work")
    text = module.text()
    remarks = compiling.remarks
    python_stubs.install(text, remarks.append)
    if device_info(job.device_kind).emulates_cuda:
        box_modules.emulated().install(text, remarks.append)
    python_module.install_extensions(text, compiling.provide)
    try:
        # From here on untrusted code has run in this process.
        code, log = _imported(job, module, main_path)
    except BaseException as error:  # noqa: BLE001  SystemExit too: whatever the module's own code throws
        code, log = _failed(error, module, job.device_kind)
    note = replace(_joined(compiling.notes), remarks=tuple(dict.fromkeys(remarks)))
    log = f"{''.join(compiling.logs) if code == BUILT else ''}{log}"
    report.write_text(json.dumps({"code": code, "log": log, "note": wire.encode(note).decode()}), "utf-8")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


def _failed(error: BaseException, module: python_module.ModuleDirectory, device_kind: str) -> tuple[int, str]:
    failed = next((cause for cause in chain(error) if isinstance(cause, CompileFailed)), None)
    if failed is not None:
        at = python_module.where(failed, module.sources)
        return failed.code, failed.log + (f"{at}: note: asked for here\n" if at else "")
    if isinstance(error, ModuleNotFoundError):
        modules = python_module.own_modules(module.sources, module.modules)
        if (explained := missing_module(error, modules)) is not None:
            return explained[0], python_module.complaint(error, module.sources, explained[1])
    if HIP_COMPILER in str(error):
        return UNSUPPORTED, python_module.complaint(error, module.sources, build_result.HIP_SENTENCE)
    log = python_module.complaint(error, module.sources)
    if device_info(device_kind).needs_gpu_access and any(words in f"{type(error).__name__}: {error}".lower() for words in WANTS_GPU):
        return BUILT, f"{log}note: there is no GPU where a module is built; it is imported again where there is one\n"
    return IMPORT_FAILED, log


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those in whose handling it was raised."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _imported(job: wire.BuildJob, module: python_module.ModuleDirectory, main_path: str) -> tuple[int, str]:
    imported = python_module.import_main(module.sources / main_path, module.sources, module.modules)
    try:
        entry = python_module.find_entry(imported, job.entry)
    except python_module.NoEntry as missing:
        advice = ""
        if len(job.sources) > 1:
            texts = {path: (module.sources / path).read_text("utf-8", "replace") for path in job.sources}
            candidates = python_module.defining_files(job.sources, texts, python_module.entries(job.entry))
            where = f"; {' and '.join(candidates)} define one: name the main file first" if candidates else ""
            advice = f" (the main file is the first one that is named{where})"
        return ENTRY_NOT_FOUND, f"{main_path}: error: {missing}{advice}\n"
    if inspect.isclass(entry):
        try:
            entry()  # it may compile, too
        except Exception as error:
            # What else it takes to be made may be there in the run box only.
            if any(isinstance(cause, CompileFailed) for cause in chain(error)):
                raise
    return BUILT, ""


def _joined(notes: list[wire.BuildNote]) -> wire.BuildNote:
    if not notes:
        return wire.BuildNote()
    fallback = next((note.fallback for note in notes if note.fallback), "")
    headers = "full" if any(note.headers == "full" for note in notes) else notes[0].headers
    return wire.BuildNote(headers=headers, fallback=fallback, kernels=tuple(kernel for note in notes for kernel in note.kernels))


if __name__ == "__main__":
    main()
