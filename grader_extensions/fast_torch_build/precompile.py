"""Makes the headers and the object of `grader_extensions/emulated_cuda/gcc.py`, if they are not there; part of `make setup`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader_extensions.emulated_cuda import gcc
from grader_extensions.fast_torch_build import fast_headers
from sandbox.compilers import host_compiler
from sandbox.compilers.headers import LIGHT, Headers
from sandbox.languages import torch_extension
from sandbox.protocol.devices import DeviceKind

IN_USE_S = 600.0  # longer than a build, and than making them


def main() -> int:
    """Make them; without them builds only take longer, so that a failure is only reported."""
    place = gcc.precompiled_directory()
    if place.is_dir():
        return 0
    print(f"compiling headers for the emulated device: half a minute at first, and 210 MB in {place}", flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    for earlier in place.parent.iterdir():
        if earlier.stat().st_mtime < time.time() - IN_USE_S:
            shutil.rmtree(earlier, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=place.parent) as making:
        failed = make(Path(making) / place.name)
        if failed:
            print(f"headers can't be compiled beforehand, so builds will take longer:\n{failed[:4000]}", file=sys.stderr)
            return 1
        try:
            os.replace(Path(making) / place.name, place)
        except OSError:  # another was faster
            return 0
    return 0


def make(place: Path) -> str:
    """Write and compile the headers; what the compiler says where it fails."""
    place.mkdir()
    with tempfile.TemporaryDirectory(prefix="headers-") as work:
        light_way = next(way for way in torch_extension.headers_of({}, Path(work), DeviceKind.EMULATED))
        kinds = {gcc.CUDA_HEADER: Headers()}
        if isinstance(light_way, Headers) and light_way.name == LIGHT:
            kinds[gcc.TORCH_HEADER] = light_way
            _list_names(place, light_way)
        device: tuple[Headers, Sequence[str], Path] = (Headers(), ("-c", str(gcc.DEVICE_SOURCE)), place / gcc.DEVICE_OBJECT)
        compilations = [device]
        for name, headers in kinds.items():
            (place / name).write_text(gcc.HEADER_TEXTS[name], "utf-8")
            words = (gcc.WITH_OBJECT, "-c", "-x", "c++-header", str(place / name))
            compilations.append((headers, words, place / f"{name}{gcc.PRECOMPILED_SUFFIX}"))
        with ThreadPoolExecutor() as threads:
            return "".join(threads.map(lambda compilation: _compile(*compilation), compilations))


def _list_names(place: Path, light_way: Headers) -> None:
    """Leave what torch's own headers name, for `fast_headers.py`; by their text after the preprocessor, which makes names too."""
    *_, full = torch_extension.headers_of({}, place / "unused", DeviceKind.EMULATED)
    assert isinstance(full, Headers)
    source = "#include <cuda_runtime.h>\n#include <torch/extension.h>\n"
    text = _preprocessed([*host_compiler.compiler(), *gcc.flags(full), "-dD", "-"], source)
    light_text = _preprocessed([*host_compiler.compiler(), *gcc.flags(light_way), "-dD", "-"], gcc.HEADER_TEXTS[gcc.TORCH_HEADER])
    if not text or not light_text:
        return
    if (nvcc_program := shutil.which("nvcc")) is not None:  # torch's headers have parts for it alone
        text += _preprocessed([nvcc_program, "-std=c++20", *host_compiler.include_flags(full, device=()), "-x", "cu", "-"], source)
    torch_macros = {name for name in _macros(text) - _macros(light_text) if not name.startswith("AT_DISPATCH_")}
    (place / gcc.MACROS_FILE).write_text("\n".join(sorted(torch_macros)), "utf-8")
    (place / gcc.NAMES_FILE).write_text("\n".join(sorted(set(fast_headers.WORD.findall(text)))), "utf-8")


def _preprocessed(command: Sequence[str], text: str) -> str:
    return subprocess.run([*command, "-E"], input=text, capture_output=True, text=True, errors="replace", check=False).stdout


def _macros(text: str) -> set[str]:
    return set(re.findall(r"^#define (\w+)", text, re.MULTILINE))


def _compile(headers: Headers, words: Sequence[str], target: Path) -> str:
    command = [*host_compiler.compiler(), *gcc.flags(headers), *words, "-o", str(target)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stderr if ran.returncode != 0 else ""


if __name__ == "__main__":
    raise SystemExit(main())
