"""Compiles the Triton and Numba kernels that a module launches and the CUDA that it compiles, and keeps every form on the way.

Usage: `profile_kernels PLACE OUT MAIN REPORT`; PLACE is as `python_import` has it. A process of its own, without a GPU and without
interpreters: the entry is called once on zeros, at a size that is public, and kernels are compiled and not run.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from grader_extensions.emulated_cuda import emulated_torch, emulated_triton
from grader_extensions.modes.box import numba_kernels, numba_ptx
from grader_extensions.modes.box.static_profile import NVCC, ProfileFindings, profile_cuda, resource_table
from sandbox.builder.python_import import ExtensionLanguage
from sandbox.compilers import ptxas, requested_flags
from sandbox.languages import python_extensions, python_module, python_stubs
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome

TRITON, NUMBA = "Triton", "Numba"
EXTENSION_LIMIT = 4
GPU_CORES = 132  # of an H100; a module may choose its grid by it
NumbaPairs = list[tuple[Any, tuple[Any, ...]]]
FORMS = ("ttir", "ttgir", "llir", "ptx", "cubin")


def main() -> None:
    """Import the main file, call its entry once, compile what it launched."""
    place, out, main_path, report = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    job = wire.decode((place / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    findings = ProfileFindings(out=out, architecture=job.architecture)
    compile_kernels(job, python_module.ModuleDirectory(directory=place / "module"), main_path, findings)
    report.write_bytes(wire.encode(findings.note()))
    os._exit(0)


def compile_kernels(job: wire.BuildJob, module: python_module.ModuleDirectory, main_path: str, findings: ProfileFindings) -> None:
    """Find what the entry launches, and keep what it is compiled to."""
    import torch

    text, architecture = module.text(), int(re.sub(r"\D", "", job.architecture))
    python_stubs.install(text)
    emulated_torch.install("")  # tensors that say they lie on a GPU; no interpreter
    numba = _recorder(NUMBA, text, findings, lambda: numba_kernels.record_numba(architecture))
    triton = _recorder(TRITON, text, findings, lambda: record_triton(torch, architecture))
    extensions = python_module.names_extensions(text)
    if numba is None and triton is None and not extensions:
        if not findings.tools:
            findings.tool(
                "compilers", ToolOutcome.UNAVAILABLE, "the module names neither Triton, Numba nor load_inline, so it has no kernel"
            )
        return
    why = ""
    if extensions:
        CompilingLoader(job, findings).install()
    # From here on untrusted code has run in this process. Where it fails, what it launched until then counts.
    try:
        imported = python_module.import_main(module.sources / main_path, module.sources, module.modules)
        if job.call is None or not job.call.sizes:
            why = "only the problem's own code knows how its entry is called"
        numba_kernels.call_entry(job, python_module.find_entry(imported, job.entry))
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the module throws
        why = python_module.complaint(error, module.sources).strip() if isinstance(error, Exception) else "the module ended its process"
    if extensions and NVCC not in {tool.name for tool in findings.tools}:
        findings.tool(NVCC, ToolOutcome.FAILED if why else ToolOutcome.UNAVAILABLE, why or "the module compiled no extension")
    if triton is not None:
        _keep_triton(triton, architecture, findings, why)
    if numba is not None:
        _keep_numba(numba, architecture, module.sources, findings, why)
    if findings.kernels and "ptxas.txt" not in findings.files:
        findings.keep("ptxas.txt", "ptxas", resource_table(findings.kernels).encode("utf-8", "replace"))


class CompilingLoader(python_extensions.Loader):
    """Compiles what a module gives to `load_inline` and `load`, for a GPU, and hands it a module whose functions can't be called: nothing
    is run here."""

    def __init__(self, job: wire.BuildJob, findings: ProfileFindings) -> None:
        super().__init__(numba_kernels.no_extension)
        self._job, self._found = job, findings
        self._known: set[str] = set()

    def _load(self, extension: python_extensions.Extension) -> ModuleType:
        if extension.key not in self._known and len(self._known) < EXTENSION_LIMIT:
            self._known.add(extension.key)
            with tempfile.TemporaryDirectory(prefix="extension-") as directory:
                place = Path(directory)
                # A file is named after the extension, so that files of several have different names.
                names = {name: f"{extension.name}.cu" if name == python_extensions.CUDA else name for name in extension.files}
                (place / "files").mkdir()
                (place / "made").mkdir()
                for name, texts in extension.files.items():
                    (place / "files" / names[name]).write_text("\n".join(texts), "utf-8")
                flags = requested_flags.read(
                    host=extension.cflags,
                    device=extension.cuda_cflags,
                    linker=extension.ldflags,
                    emulated=False,
                    is_own=lambda directory: False,
                )
                language = ExtensionLanguage(extension=extension, flags=flags, user_paths=())
                job = replace(self._job, language="torch_extension", entry="", sources=tuple(names.values()))
                profile_cuda(job, language, place / "files", place / "made", self._found, flags)
        return NotRun(extension.name)


class NotRun(ModuleType):
    """Stands for an extension that was compiled and not loaded."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*arguments: object, **named: object) -> None:
            raise RuntimeError(f"{self.__name__}.{name} was compiled and is not run here")

        return refuse


def _recorder(name: str, text: str, findings: ProfileFindings, install: Any) -> Any:
    if name.lower() not in text:
        return None
    try:
        return install()
    except ImportError as error:
        findings.tool(name, ToolOutcome.UNAVAILABLE, f"it is not installed here: {error}")
        return None


def record_triton(torch: Any, architecture: int) -> tuple[list[Any], list[str]]:
    """Replace launches, until the process ends; Triton compiles without a driver. Raises ImportError without Triton.

    architecture: such as 90. Triton's own `CompiledKernel`s come into the first list, each once; into the second the names of kernels of
    whose configurations the first was taken.
    """
    kernels, tuned = list[Any](), list[str]()
    emulated_triton.set_driver(torch, capability=(architecture // 10, architecture % 10), cores=GPU_CORES)
    function: Any = importlib.import_module("triton.runtime.jit").JITFunction
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    compile_or_launch = function.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = compile_or_launch(self, *arguments, grid=grid, warmup=True, **named)
        if kernel is not None and not any(kernel is recorded for recorded in kernels) and len(kernels) < numba_kernels.KERNEL_LIMIT:
            kernels.append(kernel)
        return kernel

    def bench(self: Any, *arguments: Any, config: Any, **named: Any) -> list[float]:
        name = str(getattr(self.base_fn, "__name__", "kernel"))
        if name not in tuned:
            tuned.append(name)
        return [1.0, 1.0, 1.0]  # all alike: the first is taken

    function.run, tuner._bench = run, bench
    return kernels, tuned


def _keep_triton(recorded: tuple[list[Any], list[str]], architecture: int, findings: ProfileFindings, why: str) -> None:
    kernels, tuned = recorded
    for kernel in kernels:
        name = findings.free_name(str(kernel.metadata.name), [f".{form}" for form in FORMS])
        for form in FORMS:
            content = kernel.asm.get(form)
            if content is not None:
                findings.keep(f"{name}.{form}", TRITON, content if isinstance(content, bytes) else str(content).encode("utf-8", "replace"))
        # What a kernel of Triton's takes of the device: its shared memory is asked for by the launch.
        ptx = str(kernel.asm.get("ptx", ""))
        described = ptxas.kernels(numba_ptx.assembled(ptx, architecture)[0])
        use = described[0] if described else wire.KernelUse(name=str(kernel.metadata.name), registers=0)
        doubles = sum(len(places) for places in ptxas.float64_instructions([ptx]).values())
        findings.kernels.append(
            replace(use, double_instruction_count=doubles, shared_bytes=max(use.shared_bytes, int(kernel.metadata.shared)))
        )
    for name in tuned:
        findings.remarks.append(f"the autotuner of {name} took the first configuration: nothing is timed without a GPU")
    _say(TRITON, len(kernels), "TTIR, TTGIR, LLIR, PTX and cubin", findings, why)


def _keep_numba(recorded: NumbaPairs, architecture: int, sources: Path, findings: ProfileFindings, why: str) -> None:
    count, by_nvvm = 0, True
    for dispatcher, types in recorded[: numba_kernels.KERNEL_LIMIT]:
        try:
            kernel = numba_ptx.compiled(dispatcher, types, architecture)
        except Exception as error:  # noqa: BLE001  Numba's own refusal
            why = why or f"{type(error).__name__}: {error}"
            continue
        count, by_nvvm = count + 1, by_nvvm and kernel.by_nvvm
        name = findings.free_name(kernel.name, (".ptx", ".cubin"))
        findings.keep(f"{name}.ptx", NUMBA, kernel.ptx.encode())
        if (cubin := numba_ptx.assembled(kernel.ptx, architecture)[1]) is not None:
            findings.keep(f"{name}.cubin", "ptxas", cubin)
        findings.kernels.append(numba_ptx.use(kernel, architecture))
        with contextlib.suppress(Exception):
            findings.remarks += numba_ptx.numba_float64_remarks(kernel, numba_kernels.source_path(dispatcher, sources))
    compiler = "by the toolkit's NVVM" if by_nvvm else "by LLVM's NVPTX backend, for there is no NVVM here: loops may be unrolled otherwise"
    _say(NUMBA, count, f"PTX {compiler}", findings, why)


def _say(tool: str, count: int, forms: str, findings: ProfileFindings, why: str) -> None:
    if count:
        findings.tool(tool, ToolOutcome.RAN, f"{count} kernel{'s' if count > 1 else ''}: {forms}{f'; then: {why}' if why else ''}")
    else:
        findings.tool(
            tool, ToolOutcome.FAILED if why else ToolOutcome.UNAVAILABLE, why or "the entry launched no kernel when it was called"
        )


if __name__ == "__main__":
    main()
