"""Writes docs/reference/emulated-device.md: the CUDA features of the emulated device, its PTX, its headers, and what it refuses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sandbox.compilers import asm_statement, emulation, emulation_limits, inline_ptx, ptx_emitters
from sandbox.compilers.cuda_tokens import parse
from sandbox.compilers.inline_ptx import Block, Instruction, Item
from sandbox.compilers.ptx_instructions import NARROW, RULES, SPECIAL, TYPES
from sandbox.compilers.ptx_translation import EMITTERS, rule_of
from tools.emulation_features import CONFORMANCE, Feature, FeatureTable, features, library_refusals, refusals, types_only_headers
from tools.page import table_lines

TREE = "../../tests/conformance"
NOT_RUN = "-"
# The libraries that headers belong to, by the beginning of their names; the first that fits.
LIBRARIES = (
    ("cooperative_groups", "Cooperative groups"),
    ("cub/", "CUB"),
    ("cuda/", "libcu++"),
    ("thrust/", "Thrust"),
    ("curand_", "cuRAND in kernels"),
    ("mma.h", "`nvcuda::wmma`"),
    ("cuda_fp", "fp16, bf16 and fp8"),
    ("cuda_bf", "fp16, bf16 and fp8"),
    ("cuda_pipeline", "Asynchronous copies"),
    ("nvT", "NVTX (does nothing)"),
    ("nvtx3/", "NVTX (does nothing)"),
    ("cuda_profiler", "Profiler control (does nothing)"),
    ("ATen/", "PyTorch"),
    ("c10/", "PyTorch"),
    ("torch/", "PyTorch"),
    ("", "CUDA runtime"),
)
CUB_CLASS = re.compile(r"^(?:struct|class) ((?:Block|Warp|Device)\w+)\b(?!;)", re.MULTILINE)
WITHOUT_EFFECT = (ptx_emitters.nothing, ptx_emitters.policy)


def page(written_by: str, directory: Path = CONFORMANCE) -> str:
    """The whole page; written_by: the sentence at its head."""
    table = features(directory)
    lines = [
        *("# The emulated device", "", written_by, ""),
        "The emulated device executes CUDA C++ on a CPU ([how](../architecture.md#the-emulated-device)). A source that uses an",
        "unsupported feature gets COMPILE_ERROR UNSUPPORTED, with the line and [a message](#unsupported).",
        "",
        *("## CUDA features", "", *_features(table)),
        *("## Inline PTX", "", *_inline_ptx(directory)),
        *("## Headers", "", *_headers(directory)),
        *("## Unsupported", "", *_unsupported(directory)),
    ]
    return "\n".join(lines)


def _features(table: FeatureTable) -> Iterator[str]:
    yield f"A program of [the conformance suite]({TREE}) prints the same lines on the emulated device as on a GPU. *Printed by* is the"
    yield "GPU and the CUDA toolkit that printed the expected lines. Where none has printed them yet, the column states it, and the lines"
    yield "follow from the documentation."
    yield "`-`: a test in Python, whose expectation was not printed by a GPU."
    for name, group in table.groups.items():
        yield from ("", f"### {name}", "")
        yield from table_lines(("feature", "tested by", "printed by"), (_feature_row(feature, table.printed_by) for feature in group))
    yield ""


def _feature_row(feature: Feature, printed_by: Mapping[str, str]) -> tuple[str, str, str]:
    tests = (f"[{one.partition('::')[2] or one}]({TREE}/{one.partition('::')[0]})" for one in feature.tests)
    printers = sorted({printed_by[program] for program in feature.programs} | ({NOT_RUN} if not feature.programs else set()))
    return feature.name, ", ".join((*map(_program, feature.programs), *tests)), "; ".join(printers)


def _program(name: str) -> str:
    return f"[{name}]({TREE}/{name}.cu)"


def _programs(names: Iterable[str]) -> str:
    return ", ".join(map(_program, sorted(names))) or NOT_RUN


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or NOT_RUN


def _inline_ptx(directory: Path) -> Iterator[str]:
    run = dict(sorted(opcodes(directory).items()))
    yield from (
        "Instructions that are known, and the programs that run them (`-`: no program does). Templates must be string literals.",
        "",
    )
    yield "`T` is the type in the opcode, `W` the type of twice its width; other words in a form are types. "
    yield from (
        f"All types: {_codes((*TYPES, *NARROW))}.",
        "",
        *table_lines(("instruction", "form", "types", "modifiers", "run by"), _rule_rows(run)),
    )
    without = [name for name, emitter in EMITTERS.items() if emitter in WITHOUT_EFFECT]
    yield from (
        "",
        f"Memory, matrices, warps, conversions and control flow, with the forms that programs run. Without effect: {_codes(without)}.",
        "",
    )
    yield from (*table_lines(("instruction", "forms", "run by"), _emitter_rows(run)), "")
    yield from (f"Special registers: {_codes(name if name.isupper() else f'%{name}' for name in SPECIAL)}.", "")


def _rule_rows(run: Mapping[str, set[str]]) -> Iterator[tuple[str, str, str, str, str]]:
    names = {id(rule): name for name, rule in RULES.items()}
    programs = defaultdict[str, set[str]](set)
    for opcode, users in run.items():
        rule = rule_of(Instruction(opcode, (), 0))
        if rule is not None:
            programs[names[id(rule)]] |= users
    for name, rule in RULES.items():
        types = _codes(one for one in TYPES if one in rule.types)
        yield f"`{name}`", f"`{rule.form}`", types, _codes(sorted(rule.modifiers)), _programs(programs[name])


def _emitter_rows(run: Mapping[str, set[str]]) -> Iterator[tuple[str, str, str]]:
    for name in EMITTERS:
        forms = [opcode for opcode in run if opcode.split(".")[0] == name]
        yield f"`{name}`", _codes(forms), _programs({user for form in forms for user in run[form]})


def opcodes(directory: Path) -> dict[str, set[str]]:
    """The opcodes of the asm statements of all programs, and which programs have each."""
    found = defaultdict[str, set[str]](set)
    for path in directory.glob("*.cu"):
        code = path.read_bytes()
        for token in parse(code):
            if token.text in emulation.ASM and (token.in_function or token.in_macro):
                statement = asm_statement.read(code, token.start, token.end)
                operands = tuple(operand.name for operand in (*statement.outputs, *statement.inputs))
                for opcode in _opcodes(inline_ptx.parse(statement.template, operands)):
                    found[opcode].add(path.stem)
    return dict(found)


def _opcodes(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Block):
            yield from _opcodes(item.items)
        elif isinstance(item, Instruction):
            yield item.opcode


def _headers(directory: Path) -> Iterator[str]:
    by_library = defaultdict[str, list[str]](list)
    for header in _public_headers():
        by_library[next(library for start, library in LIBRARIES if header.startswith(start))].append(header)
    yield from ("These headers are the emulated device's own:", "")
    yield from (*table_lines(("library", "headers"), ((name, _codes(by_library[name])) for name in sorted(by_library, key=str.lower))), "")
    classes = {name for path in (emulation.NATIVE / "cub").rglob("*.h") for name in CUB_CLASS.findall(path.read_text())}
    yield from (f"CUB has {_codes(sorted(classes))}.", "")
    taken = _codes(f"{start}*" for start in (*emulation_limits.FROM_TOOLKIT, "cuda/"))
    yield f"Other headers {taken} come from an installed CUDA toolkit (`CUDA_HOME`, nvcc's, or `/usr/local/cuda`), less those"
    yield from ("that are [unsupported](#unsupported).", "")
    yield from ("These headers declare types, so that a source may include them. A call is refused by its name:", "")
    rows = ((f"`{one.feature}`", _codes(one.sources), _message(one.message)) for one in library_refusals(directory))
    yield from (*table_lines(("header", "a call", "message"), rows), "")


def _public_headers() -> Iterator[str]:
    """Those that a kernel includes, less those that declare types only."""
    for path in sorted(emulation.NATIVE.rglob("*")):
        name = path.relative_to(emulation.NATIVE).as_posix()
        internal = name.startswith(("emu/", "thrust/system/detail/")) or (name.startswith("cub/") and path.suffix != ".cuh")
        if path.is_file() and not internal and name not in types_only_headers():
            yield name


def _unsupported(directory: Path) -> Iterator[str]:
    yield "The log of the build is the file and the line, as in `kernel.cu:12: error: `, and the message. PTX is shown without `asm`."
    yield ""
    rows = ((one.feature, "<br>".join(map(_source, one.sources)), _message(one.message)) for one in refusals(directory))
    yield from table_lines(("feature", "source", "message"), rows)


def _source(text: str) -> str:
    return "<br>".join(f"`{line.strip()}`" for line in text.splitlines())


def _message(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
