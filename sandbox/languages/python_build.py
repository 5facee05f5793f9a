"""Has a module's Numba kernels compiled next to its import, in a process of its own: for what is said of them, never for what is run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from sandbox.compilers import nvcc
from sandbox.compilers.steps import BUILT, ENTRY_NOT_FOUND, IMPORT_FAILED, REJECTED, UNSUPPORTED, BuildAttempt, spoiled
from sandbox.languages.python_module import SIMULATOR, ModuleDirectory, NoMainFile, choose_main, entries, names_extensions
from sandbox.protocol import wire
from sandbox.protocol.box_files import read_left
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.devices import device_info
from sandbox.protocol.python_archive import MODULES, ArchiveRefused, pack

WAIT_S = 20.0  # once the import has ended
OUTPUT_KEPT_BYTES = 16 * 1024
REPORT_LIMIT_BYTES = 512 * 1024
DRAIN_S = 0.5
START = "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
IMPORTER, KERNEL_COMPILER = "sandbox.builder.python_import", "numba_kernels"  # the latter is a box module
CODES = frozenset({BUILT, REJECTED, UNSUPPORTED, ENTRY_NOT_FOUND, IMPORT_FAILED})


@contextmanager
def compiling_numba(
    command: Sequence[str], place: Path, device_kind: str, main: str, text: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path] | None]:
    """Compile the kernels of a submission meanwhile; None where its text does not name Numba, or no package brings the compiler.

    command: is called with the compiler's module, the directory of the build, the path of a report and that of the main file. Yields its
    process and the report's path.
    """
    module = box_modules().get(KERNEL_COMPILER)
    if "numba" not in text or module is None:
        yield None
        return
    directory = place / "numba"
    directory.mkdir()
    report_path = directory / "report.json"
    environment = {**os.environ, **ModuleDirectory(directory=directory).environment(device_kind)}
    environment.pop(SIMULATOR, None)  # which has no types
    with spawn([*command, module, str(place), str(report_path), main], directory, environment) as process:
        try:
            yield process, report_path
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def spawn(command: Sequence[str], place: Path, environment: dict[str, str], output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, without input; output: of both streams."""
    return subprocess.Popen(
        command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )


def build(job: wire.BuildJob, files: Path, place: Path, out_dir: Path) -> tuple[BuildAttempt, wire.BuildNote]:
    """Import the main file of a job in `place`, an empty directory, and pack all files. The problem's modules lie next to `files`."""
    module = ModuleDirectory(directory=place / "module")
    sources, modules = module_files(job, files)
    texts = {path: content.decode("utf-8", "replace") for path, content in sources.items()}
    try:
        main = choose_main(job.sources, texts, entries(job.entry))
    except NoMainFile as refused:
        return BuildAttempt(code=REJECTED, log=f"error: {refused}\n"), wire.BuildNote()
    program = device_info(job.device_kind).toolkit_program
    if program and any(map(names_extensions, texts.values())) and shutil.which(program) is None:
        raise nvcc.NoCompiler  # our fault, and reported where it is believed
    module.place_files(sources, modules)
    for directory in (module.extensions, place / "work"):
        directory.mkdir(parents=True)
    (place / "job.json").write_bytes(wire.encode(job))
    report_path = place / "report.json"
    words = [sys.executable, "-I", "-c", START, str(Path(__file__).parents[2])]
    work = module.place_work(module.sources / main)
    environment = {**os.environ, **module.environment(job.device_kind)}
    process = spawn([*words, IMPORTER, str(place), str(report_path), main, str(out_dir)], work, environment, subprocess.PIPE)
    packed = partial(pack, sources, module.directory, modules=modules, main=main if len(sources) > 1 else "")
    # From here on the submission runs in this box: believe nothing that lies here, and what fails is its doing.
    try:
        with compiling_numba(words, place, job.device_kind, main, module.text()) as kernels:
            tried, note = _import_result(process, report_path, packed)
            if kernels is None or tried.code != BUILT:
                return tried, note
            with suppress(subprocess.TimeoutExpired):
                kernels[0].wait(WAIT_S)
            of_kernels = _reported(kernels[1])[1]
            return tried, replace(note, kernels=(*note.kernels, *of_kernels.kernels), remarks=(*note.remarks, *of_kernels.remarks))
    except Exception as error:  # noqa: BLE001  it may have filled or locked every place, and taken memory and threads
        return spoiled(error), wire.BuildNote()


def module_files(job: wire.BuildJob, files: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The submitted files, and those of the problem, which lie next to `files`; by their paths."""
    sources = {path: (files / path).read_bytes() for path in job.sources}
    return sources, {name: (files.parent / MODULES / name).read_bytes() for name in job.modules}


def _import_result(process: subprocess.Popen[bytes], report_path: Path, pack: Callable[[], bytes]) -> tuple[BuildAttempt, wire.BuildNote]:
    # Wait for a process: the first of what it printed, and its exit code. Its children go with it.
    output_bytes = bytearray()
    with process:
        assert process.stdout is not None
        # A thread: a child that holds the pipe open must not keep us.
        reader = threading.Thread(target=_keep, args=(process.stdout, output_bytes), daemon=True)
        reader.start()
        exit_code = process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        reader.join(DRAIN_S)
        text = bytes(output_bytes[:OUTPUT_KEPT_BYTES]).decode("utf-8", "replace")
        if reader.is_alive():
            process.stdout = None  # closing it would wait for the reader
    cut = "\n(the rest of what the module printed is left out)\n" if len(output_bytes) > OUTPUT_KEPT_BYTES else ""
    output = text + cut
    reported, note = _reported(report_path)
    if reported is None:
        log = f"error: the module ended its process while it was imported (exit code {exit_code}); let it end by itself\n{output}"
        return BuildAttempt(code=IMPORT_FAILED, log=log), note
    if reported.code != BUILT:
        return BuildAttempt(code=reported.code, log=f"{reported.log}{output}"), note
    try:
        artifact = pack()
    except ArchiveRefused as refused:
        return BuildAttempt(code=REJECTED, log=f"error: {refused}\n{output}"), note
    return BuildAttempt(code=BUILT, log=f"{reported.log}{output}", artifact=artifact), note


def _keep(stream: IO[bytes], output_bytes: bytearray) -> None:
    while chunk := os.read(stream.fileno(), 65536):
        output_bytes += chunk[: OUTPUT_KEPT_BYTES + 1 - len(output_bytes)]


def _reported(path: Path) -> tuple[BuildAttempt | None, wire.BuildNote]:
    """Read the report of the importing process; None where it is not in the form that it writes."""
    note = wire.BuildNote()
    try:
        message = json.loads(read_left(path, REPORT_LIMIT_BYTES))
        code, log, noted = message["code"], message["log"], wire.decode(message["note"].encode())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, note
    if type(code) is not int or code not in CODES or not isinstance(log, str):  # 7.0 is in CODES, too, and no exit code
        return None, note
    return BuildAttempt(code=code, log=log), noted if isinstance(noted, wire.BuildNote) else note
