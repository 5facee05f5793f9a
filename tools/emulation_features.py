"""Reads what the conformance suite says of the emulated device: the features it has and those it refuses.

The tables are tests/conformance/features.toml and unsupported.toml.  Messages come from the code that refuses a source.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.compilers import asm_statement, emulation, emulation_limits, ptx_emitters, ptx_instructions

CONFORMANCE = Path(__file__).parents[1] / "tests" / "conformance"
FEATURES, UNSUPPORTED = "features.toml", "unsupported.toml"
PTX_SOURCE = '__device__ void f(unsigned r, void* p, float x) {{ asm volatile("{}" : "+r"(r), "+l"(p), "+f"(x)); }}'
UNDECLARED = "kernel.cu:1:1: error: ‘{}’ was not declared in this scope\n"
TYPES_ONLY = "// Types of "


class FeatureTableError(Exception):
    """A table of the conformance suite does not fit its programs or the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a kernel may use, and what proves it."""

    name: str
    programs: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # a file, or a file and a test as pytest names it

    def __post_init__(self) -> None:
        if not self.programs and not self.tests:
            raise FeatureTableError(f"the feature '{self.name}' of {FEATURES} names neither programs nor tests")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """The features by group, and the GPU that printed the `.expected` of each program."""

    groups: dict[str, tuple[Feature, ...]]
    printed_by: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Sources that get one message."""

    feature: str
    sources: tuple[str, ...]
    message: str


def features(directory: Path = CONFORMANCE) -> FeatureTable:
    """Read the table of features; FeatureTableError where it does not fit the programs and tests of the directory."""
    table = tomllib.loads((directory / FEATURES).read_text())
    groups = {
        group["name"]: tuple(
            _feature(one["name"], **{key: value for key, value in one.items() if key != "name"}) for one in group["features"]
        )
        for group in table["group"]
    }
    printed = [(program, printer) for printer, programs in table["printed_by"].items() for program in programs]
    found = [feature for group in groups.values() for feature in group]
    there = {path.stem for path in directory.glob("*.cu")}
    _same(there, (program for feature in found for program in feature.programs), "is in no feature")
    _same(there, (program for program, _ in printed), "is not under [printed_by]")
    _same(there, (path.stem for path in directory.glob("*.expected")), "has no .expected")
    if len(printed) != len(there):
        raise FeatureTableError(f"{FEATURES} names a program twice under [printed_by]")
    for test in (test for feature in found for test in feature.tests):
        file, _, name = test.partition("::")
        if not (directory / file).is_file() or f"def {name}" not in (directory / file).read_text():
            raise FeatureTableError(f"{FEATURES} names the test {test}, which does not exist")
    return FeatureTable(groups=groups, printed_by=dict(printed))


def _feature(name: str, programs: Sequence[str] = (), tests: Sequence[str] = ()) -> Feature:
    return Feature(name=name, programs=tuple(programs), tests=tuple(tests))


def _same(programs: set[str], named: Iterable[str], complaint: str) -> None:
    names = set(named)
    for program in sorted(programs - names):
        raise FeatureTableError(f"{program}.cu {complaint} (tests/conformance/{FEATURES})")
    for program in sorted(names - programs):
        raise FeatureTableError(f"{program}.cu does not exist, but tests/conformance names it")


def refusals(directory: Path = CONFORMANCE) -> list[Refusal]:
    """Have every source of the table refused; FeatureTableError for one that is not, and for a refusal of the code that no source gets."""
    table = tomllib.loads((directory / UNSUPPORTED).read_text())
    found = [refusal for feature in table["feature"] for refusal in _of_feature(feature)]
    missing = sorted(_unshown(found))
    if missing:
        raise FeatureTableError(f"no source of tests/conformance/{UNSUPPORTED} shows: {'; '.join(missing)}")
    return found


def library_refusals(directory: Path = CONFORMANCE) -> list[Refusal]:
    """The headers that declare types only, and the message that a call gets; FeatureTableError where one has no call in the table."""
    table = tomllib.loads((directory / UNSUPPORTED).read_text())
    found = [
        Refusal(
            feature=one["header"],
            sources=(f"{one['call']}(...)",),
            message=_message(f"#include <{one['header']}>\nvoid f() {{ {one['call']}(); }}"),
        )
        for one in table["library"]
    ]
    differing = {refusal.feature for refusal in found} ^ types_only_headers()
    if differing:
        raise FeatureTableError(
            f"[[library]] of {UNSUPPORTED} and the headers that declare types only differ in {', '.join(sorted(differing))}"
        )
    for library in emulation_limits.HOST_LIBRARIES.values():
        if not any(library in refusal.message for refusal in found):
            raise FeatureTableError(f"no call of {UNSUPPORTED} is one of {library}")
    return found


def types_only_headers() -> set[str]:
    """The emulated device's headers of libraries that need a GPU."""
    headers = (path for path in emulation.NATIVE.iterdir() if path.is_file())
    return {path.name for path in headers if path.read_text().startswith(TYPES_ONLY)}


def _of_feature(feature: dict[str, Any]) -> Iterator[Refusal]:
    by_message: dict[str, list[str]] = {}
    for source, message in _refused(feature):
        by_message.setdefault(message, []).append(source.strip())
    for message, sources in by_message.items():
        yield Refusal(feature=feature["name"], sources=tuple(sources), message=message)


def _refused(feature: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Sources as the table has them, and the message for each."""
    unknown = feature.keys() - {"name", "code", "ptx", "names", "toolkit_headers"}
    if unknown:
        raise FeatureTableError(f"{UNSUPPORTED}: unknown key '{min(unknown)}' in '{feature['name']}'")
    yield from ((source, _message(source)) for source in feature.get("code", ()))
    yield from ((template, _message(PTX_SOURCE.format(template))) for template in feature.get("ptx", ()))
    for name in feature.get("names", ()):
        yield f"{name}(...)", _given(name, emulation_limits.unknown_name(UNDECLARED.format(name), f"void f() {{ {name}(); }}"))
    for header in feature.get("toolkit_headers", ()):
        yield f"#include <{header}>", _given(header, emulation_limits.missing_header(header, in_toolkit=lambda name: False))


def _message(source: str) -> str:
    try:
        emulation.translate(source, "kernel.cu")
    except emulation.Unsupported as refusal:
        return refusal.sentence
    raise FeatureTableError(f"the emulated device does not refuse this source of {UNSUPPORTED}: {source}")


def _given(name: str, message: str | None) -> str:
    if message is None:
        raise FeatureTableError(f"the emulated device does not refuse {name}, which {UNSUPPORTED} names")
    return message


def _unshown(found: list[Refusal]) -> Iterator[str]:
    """Names and sentences by which the code refuses a source, and which none of these sources has."""
    shown = {refusal.message for refusal in found}
    constants = {name: value for name, value in vars(emulation_limits).items() if name.isupper() and name != "ELSEWHERE"}
    sentences = [value for value in constants.values() if isinstance(value, str) and " " in value]
    for sentence in (*sentences, asm_statement.CONDITIONAL, ptx_emitters.BLOCK_SCALED, ptx_emitters.VOLTA):
        if sentence not in shown:
            yield sentence
    prefixes = dict.fromkeys((*emulation_limits.LIBRARIES, *emulation_limits.CUTLASS, *emulation_limits.WITHOUT_YIELD), "")
    for name, sentence in {**emulation_limits.FEATURES, **emulation_limits.HEADERS, **ptx_instructions.REFUSED, **prefixes}.items():
        word = re.compile(rf"(?<![\w.]){re.escape(name)}" + (r"(?!\w)" if name[-1].isalnum() else ""))
        if not any(sentence in (refusal.message, "") and any(map(word.search, refusal.sources)) for refusal in found):
            yield name
