"""Writes docs/reference/emulated-device.md: the CUDA features of the emulated device, its PTX, its headers, and what it refuses.

The tables are features.toml and unsupported.toml of its conformance tests. Messages come from the code that refuses a source.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader_extensions.emulated_cuda import emulation, emulation_limits, inline_ptx, ptx_emitters, ptx_instructions
from grader_extensions.emulated_cuda.ptx_instructions import NARROW, RULES, SPECIAL, TYPES
from grader_extensions.emulated_cuda.ptx_translation import EMITTERS
from tools.page import ROOT, table_lines

CONFORMANCE = ROOT / "grader_extensions" / "emulated_cuda" / "tests" / "conformance"
FEATURES, UNSUPPORTED = "features.toml", "unsupported.toml"
PTX_SOURCE = '__device__ void f(unsigned r, void* p, float x) {{ asm volatile("{}" : "+r"(r), "+l"(p), "+f"(x)); }}'
UNDECLARED = "kernel.cu:1:1: error: ‘{}’ was not declared in this scope\n"
TYPES_ONLY = "// Types of "
NONE = "-"
# The libraries of headers, by the beginning of their names; the first that fits.
LIBRARIES = (
    ("cooperative_groups", "Cooperative groups"),
    ("cub/", "CUB"),
    ("cuda/", "libcu++"),
    ("thrust/", "Thrust"),
    ("curand_", "cuRAND in kernels"),
    ("mma.h", "`nvcuda::wmma`"),
    (("cuda_fp", "cuda_bf"), "fp16, bf16 and fp8"),
    ("cuda_pipeline", "Asynchronous copies"),
    (("nvT", "nvtx3/", "cuda_profiler"), "NVTX and profiler control (do nothing)"),
    (("ATen/", "c10/", "torch/"), "PyTorch"),
    ("", "CUDA runtime"),
)
CUB_CLASS = re.compile(r"^(?:struct|class) ((?:Block|Warp|Device)\w+)\b(?!;)", re.MULTILINE)
WITHOUT_EFFECT = (ptx_emitters.nothing, ptx_emitters.policy)


class FeatureTableError(Exception):
    """A table of the conformance suite does not fit its programs or the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Sources that get one message."""

    feature: str
    sources: tuple[str, ...]
    message: str


def features(directory: Path = CONFORMANCE) -> dict[str, Any]:
    """Read the table of features; FeatureTableError if it does not fit the programs and tests of the directory."""
    table = tomllib.loads((directory / FEATURES).read_text())
    entries = [entry for group in table["group"] for entry in group["features"]]
    programs = {path.stem for path in directory.glob("*.cu")}
    for place, names in (
        ("features", {program for entry in entries for program in entry.get("programs", ())}),
        ("[printed_by]", {program for printed in table["printed_by"].values() for program in printed}),
        (".expected files", {path.stem for path in directory.glob("*.expected")}),
    ):
        if differing := sorted(programs ^ names):
            raise FeatureTableError(f"the programs and the {place} of {FEATURES} differ in {', '.join(differing)}")
    for test in (test for entry in entries for test in entry.get("tests", ())):
        file, _, name = test.partition("::")
        if not (directory / file).is_file() or f"def {name}" not in (directory / file).read_text():
            raise FeatureTableError(f"{FEATURES} names the test {test}, which does not exist")
    return table


def refusals(directory: Path = CONFORMANCE) -> list[Refusal]:
    """Have every source of the table refused; FeatureTableError for one that is not, and for a refusal that no source gets."""
    result = []
    for feature in tomllib.loads((directory / UNSUPPORTED).read_text())["feature"]:
        by_message: dict[str, list[str]] = {}
        for source, message in _refused(feature):
            by_message.setdefault(message, []).append(source.strip())
        result += [Refusal(feature=feature["name"], sources=tuple(texts), message=message) for message, texts in by_message.items()]
    if missing := sorted(_unshown(result)):
        raise FeatureTableError(f"no source of {UNSUPPORTED} shows: {'; '.join(missing)}")
    return result


def library_refusals(directory: Path = CONFORMANCE) -> list[Refusal]:
    """Return the message for a call of each header that declares types only; FeatureTableError where the table has no call."""
    result = []
    for entry in tomllib.loads((directory / UNSUPPORTED).read_text())["library"]:
        message = _message(f"#include <{entry['header']}>\nvoid f() {{ {entry['call']}(); }}")
        result.append(Refusal(feature=entry["header"], sources=(f"{entry['call']}(...)",), message=message))
    if differing := {refusal.feature for refusal in result} ^ types_only_headers():
        text = ", ".join(sorted(differing))
        raise FeatureTableError(f"[[library]] of {UNSUPPORTED} and the headers that declare types only differ in {text}")
    for library in emulation_limits.HOST_LIBRARIES.values():
        if not any(library in refusal.message for refusal in result):
            raise FeatureTableError(f"no call of {UNSUPPORTED} is one of {library}")
    return result


def types_only_headers() -> set[str]:
    """Return the emulated device's headers of libraries that need a GPU."""
    return {path.name for path in emulation.NATIVE.iterdir() if path.is_file() and path.read_text().startswith(TYPES_ONLY)}


def _refused(feature: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    unknown = feature.keys() - {"name", "code", "ptx", "names", "toolkit_headers"}
    if unknown:
        raise FeatureTableError(f"{UNSUPPORTED}: unknown key '{min(unknown)}' in '{feature['name']}'")
    yield from ((source, _message(source)) for source in feature.get("code", ()))
    yield from ((template, _message(PTX_SOURCE.format(template))) for template in feature.get("ptx", ()))
    messages = {
        name: emulation_limits.unknown_name(UNDECLARED.format(name), f"void f() {{ {name}(); }}") for name in feature.get("names", ())
    }
    headers = {name: emulation_limits.missing_header(name, in_toolkit=lambda _: False) for name in feature.get("toolkit_headers", ())}
    for name, message in {**messages, **headers}.items():
        if message is None:
            raise FeatureTableError(f"the emulated device does not refuse {name}, which {UNSUPPORTED} names")
        yield f"{name}(...)" if name in messages else f"#include <{name}>", message


def _message(source: str) -> str:
    try:
        emulation.translate(source, "kernel.cu")
    except emulation.Unsupported as refusal:
        return refusal.sentence
    raise FeatureTableError(f"the emulated device does not refuse this source of {UNSUPPORTED}: {source}")


def _unshown(table: list[Refusal]) -> Iterator[str]:
    """Yield the names and sentences by which the code refuses a source, and which no source of the table has."""
    shown = {refusal.message for refusal in table}
    limits = vars(emulation_limits).items()
    sentences = [value for name, value in limits if name.isupper() and name != "ELSEWHERE" and isinstance(value, str) and " " in value]
    yield from ({*sentences, inline_ptx.CONDITIONAL, ptx_emitters.BLOCK_SCALED, ptx_emitters.VOLTA} - shown)
    prefixes = dict.fromkeys((*emulation_limits.LIBRARIES, *emulation_limits.CUTLASS, *emulation_limits.WITHOUT_YIELD), "")
    for name, sentence in {**emulation_limits.FEATURES, **emulation_limits.HEADERS, **ptx_instructions.REFUSED, **prefixes}.items():
        word = re.compile(rf"(?<![\w.]){re.escape(name)}" + (r"(?!\w)" if name[-1].isalnum() else ""))
        if not any(sentence in (refusal.message, "") and any(map(word.search, refusal.sources)) for refusal in table):
            yield name


def page(written_by: str, directory: Path = CONFORMANCE) -> str:
    """Return the whole page; written_by: the sentence at its head."""
    table = features(directory)
    lines = [
        *("# The emulated device", "", written_by, ""),
        "The emulated device executes CUDA C++ on a CPU ([how](../architecture.md#the-emulated-device)). A source that uses an",
        "unsupported feature gets COMPILE_ERROR UNSUPPORTED, with the line and [a message](#unsupported).",
        *("", "## CUDA features", ""),
        "A program of `grader_extensions/emulated_cuda/tests/conformance` prints the same lines on the emulated device as on a GPU.",
        "*Printed by* is the GPU that printed them, with CUDA 13. Where none has yet, the column says so, and the lines follow",
        "from CUDA's documentation. `-`: a test in Python, whose expectation was not printed by a GPU.",
    ]
    printers = {program: printer for printer, programs in table["printed_by"].items() for program in programs}
    for group in table["group"]:
        rows = []
        for entry in group["features"]:
            programs = entry.get("programs", ())
            tests = [*programs, *(test.partition("::")[2] or test for test in entry.get("tests", ()))]
            printed_by = sorted({printers[program] for program in programs} or {NONE})
            rows.append((entry["name"], _codes(tests), "; ".join(printed_by)))
        lines += ["", f"### {group['name']}", "", *table_lines(("feature", "tested by", "printed by"), rows)]
    forms = defaultdict[tuple[str, ...], list[str]](list)
    for name, rule in RULES.items():
        forms[f"`{rule.form}`", _codes(word for word in TYPES if word in rule.types), _codes(sorted(rule.modifiers))].append(name)
    rules = [(_codes(names), *form) for form, names in forms.items()]
    without = [name for name, emitter in EMITTERS.items() if emitter in WITHOUT_EFFECT]
    lines += [
        *("", "## Inline PTX", "", "Templates must be string literals. `T` is the type in the opcode, `W` the type of twice its width;"),
        f"other words in a form are types. All types: {_codes((*TYPES, *NARROW))}.",
        *("", *table_lines(("instructions", "form", "types", "modifiers"), rules), ""),
        f"Memory, matrices, warps, conversions and control flow: {_codes(EMITTERS)}. Without effect: {_codes(without)}.",
        *("", f"Special registers: {_codes(name if name.isupper() else f'%{name}' for name in SPECIAL)}.", ""),
        *("## Headers", "", *_headers(directory), "## Unsupported", ""),
        *("The log of the build is the file and the line, as in `kernel.cu:12: error: `, and the message. PTX is shown without `asm`.", ""),
    ]
    rejected = (
        (entry.feature, "<br>".join(f"`{line.strip()}`" for text in entry.sources for line in text.splitlines()), _code(entry.message))
        for entry in refusals(directory)
    )
    return "\n".join([*lines, *table_lines(("feature", "source", "message"), rejected)])


def _headers(directory: Path) -> Iterator[str]:
    by_library = defaultdict[str, list[str]](list)
    for path in sorted(emulation.NATIVE.rglob("*")):
        name = path.relative_to(emulation.NATIVE).as_posix()
        internal = name.startswith(("emu/", "thrust/system/detail/")) or (name.startswith("cub/") and path.suffix != ".cuh")
        if path.is_file() and not internal and name not in types_only_headers():
            by_library[next(library for start, library in LIBRARIES if name.startswith(start))].append(name)
    yield from ("These headers are the emulated device's own:", "")
    yield from (*table_lines(("library", "headers"), ((name, _codes(by_library[name])) for name in sorted(by_library, key=str.lower))), "")
    classes = {name for path in (emulation.NATIVE / "cub").rglob("*.h") for name in CUB_CLASS.findall(path.read_text())}
    yield from (f"CUB has {_codes(sorted(classes))}.", "")
    toolkit = _codes(f"{start}*" for start in (*emulation_limits.FROM_TOOLKIT, "cuda/"))
    yield f"Other headers {toolkit} come from an installed CUDA toolkit (`CUDA_HOME`, nvcc's, or `/usr/local/cuda`), less those"
    yield from ("that are [unsupported](#unsupported).", "")
    yield from ("These headers declare types, so that a source may include them. A call is refused by its name:", "")
    rows = ((f"`{entry.feature}`", _codes(entry.sources), _code(entry.message)) for entry in library_refusals(directory))
    yield from (*table_lines(("header", "a call", "message"), rows), "")


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or NONE


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
