"""Values to feed to the grader: plain ones that break things, messages of the wire and of the API, and texts that were good once."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st

from sandbox.protocol import wire

# For controls: whether something is found, not how small it can be made.
FINDING = settings(
    max_examples=2000, derandomize=True, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
)
EXAMPLES_VARIABLE = "GRADER_FUZZ_EXAMPLES"

TEXTS = (
    "", " ", "\0", "a\0b", "\n", "é", "\u202e", "\u2028", "\U0010ffff", "../../etc/passwd", "/etc/passwd", "a/../b", ".", "..", "~", "-1",
    "NaN", "1e999", "null", "{}", "[]", "%s%n", "${x}", "'; drop table submissions; --", "problems/", "submissions/", "n // 0",
    "[red]x[/red]", "\x1b[2J", "__class__", "2 ** 8 ** 8",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400, -(10**400),
)  # fmt: skip
LONG = (("x", 300), ("x", 70_000), ("1", 5000), ("9", 200), ("(", 150), ("\U0010ffff", 500))
FLOATS = (0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_DEPTHS = (2, 20, 60, 300)


def examples(small: int) -> Callable[[Any], Any]:
    """At most so many examples in the small profile, for what takes long."""
    return settings() if EXAMPLES_VARIABLE in os.environ else settings(max_examples=small)


@functools.cache
def texts() -> st.SearchStrategy[str]:
    """Any text, lone surrogates too, and those that have broken something somewhere."""
    long = st.sampled_from(LONG).map(lambda pair: pair[0] * pair[1])
    return st.one_of(st.sampled_from(TEXTS), st.text(st.characters(), max_size=30), st.text(st.characters(), max_size=30), long)


@functools.cache
def unicode_texts() -> st.SearchStrategy[str]:
    """Any text that has a UTF-8."""
    return texts().map(lambda text: text.encode("utf-8", "replace").decode())


def nested(depth: int, key: str | None, leaf: Any = 0) -> Any:
    """Lists in lists, or objects in objects under one key."""
    for _ in range(depth):
        leaf = [leaf] if key is None else {key: leaf}
    return leaf


@functools.cache
def scalars() -> st.SearchStrategy[Any]:
    """Plain values without parts."""
    return st.one_of(
        st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(-(2**70), 2**70), st.sampled_from(FLOATS), st.floats(), texts()
    )


@functools.cache
def hostile_values() -> st.SearchStrategy[Any]:
    """Draw anything that JSON can say."""
    small = st.recursive(
        scalars(), lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts(), inner, max_size=3)), max_leaves=6
    )
    deep = st.builds(nested, st.sampled_from(_DEPTHS), st.sampled_from((None, "x", "parts", "type")))
    return st.one_of(small, deep)


@st.composite
def mutated(draw: st.DrawFn, data: Any, values: st.SearchStrategy[Any] | None = None, limit: int = 3) -> Any:
    """Plain data in which some places hold something else, have gone, or are new."""
    data, values = json.loads(json.dumps(data)), hostile_values() if values is None else values
    for _ in range(draw(st.integers(1, limit))):
        places = list(_places(data))
        if not places:
            return draw(values)
        holder, key = draw(st.sampled_from(places))
        match draw(st.integers(0, 5)):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[draw(texts())] = draw(values)
            case 2:
                place, name = draw(st.sampled_from(places))
                if (isinstance(place, dict) and name in place) or (isinstance(place, list) and isinstance(name, int) and name < len(place)):
                    holder[key] = json.loads(json.dumps(place[name]))
            case _:
                holder[key] = draw(values)
    return data


def _places(data: Any, depth: int = 0) -> typing.Iterator[tuple[Any, Any]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(pairs):
        yield data, key
        if depth < 20:
            yield from _places(value, depth + 1)


@st.composite
def garbled(draw: st.DrawFn, text: str, words: tuple[str, ...] = ()) -> str:
    """A text with spans cut out, doubled, moved, or replaced by words and characters."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 60)))
        match draw(st.integers(0, 4)):
            case 0:
                text = text[:begin] + text[end:]
            case 1:
                text = text[:end] + text[begin:]
            case 2:
                at = draw(st.integers(0, len(text)))
                text = text[:at] + text[begin:end] + text[at:]
            case 3 if words:
                text = text[:begin] + draw(st.sampled_from(words)) * draw(st.sampled_from((1, 1, 1, 2, 300))) + text[end:]
            case _:
                text = text[:begin] + draw(texts()) + text[end:]
    return text


# -- the wire ------------------------------------------------------------------------------------------------------------


@functools.cache
def wire_messages(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of a class with any values in the ranges of its types."""
    return _of_class(kind, 2)


@functools.cache
def _of_class(kind: type[Any], depth: int) -> st.SearchStrategy[Any]:
    if kind is wire.Samples:
        return st.lists(_of_hint(int, depth), min_size=1, max_size=2).map(lambda times: wire.Samples(durations_ns=tuple(times)))
    hints = wire.field_types(kind)
    required = {f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}
    fields = {name: _of_hint(hint, depth) for name, hint in hints.items()}
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in fields.items() if name in required},
        optional={name: strategy for name, strategy in fields.items() if name not in required},
    ).map(lambda values: kind(**values))


def _of_hint(hint: Any, depth: int) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_of_hint(argument, depth) for argument in arguments])
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.just(()) if depth <= 0 else st.lists(_of_hint(arguments[0], depth - 1), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(_of_hint(argument, depth) for argument in arguments))
    if origin is dict:
        return st.dictionaries(unicode_texts(), _of_hint(arguments[1], depth - 1), max_size=2)
    if dataclasses.is_dataclass(hint):
        return st.deferred(lambda: _of_class(hint, depth - 1))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    if hint is int or (origin is typing.Annotated and arguments[0] is int):
        low, high = arguments[1] if arguments else wire.INT64
        return st.one_of(st.sampled_from([number for number in NUMBERS if low <= number <= high]), st.integers(low, high))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        float: st.floats(allow_nan=False, allow_infinity=False),
        wire.AnyFloat: st.floats(),
        bool: st.booleans(),
        str: unicode_texts(),
        type(None): st.none(),
    }
    return plain[hint]


WIRE_CLASSES = tuple(wire.MESSAGES.values())


# -- the API -------------------------------------------------------------------------------------------------------------

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


@functools.cache
def proto_messages(kind: type[Message], strings: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Any]:
    """Messages of a class with any values of its fields; strings: what its strings are."""
    return _of_descriptor(kind.DESCRIPTOR, 3, unicode_texts() if strings is None else strings).map(lambda fill: _filled(kind, fill))


def _filled(kind: type[Message], fill: Callable[[Any], None]) -> Any:
    message = kind()
    fill(message)
    note(str(message)[:2000])
    return message


@functools.cache
def _of_descriptor(descriptor: Descriptor, depth: int, strings: st.SearchStrategy[str]) -> st.SearchStrategy[Callable[[Any], None]]:
    chosen = st.fixed_dictionaries({}, optional={field.name: _of_field(field, depth, strings) for field in descriptor.fields})

    def fill_with(values: dict[str, Any]) -> Callable[[Any], None]:
        def fill(message: Any) -> None:
            for name, value in values.items():
                _set(message, descriptor.fields_by_name[name], value)

        return fill

    return chosen.map(fill_with)


def _of_field(field: FieldDescriptor, depth: int, strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    entry = field.message_type if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE else None
    if entry is not None and entry.GetOptions().map_entry:
        value = _of_single(entry.fields_by_name["value"], depth - 1, strings)
        return st.dictionaries(strings, value, max_size=2) if depth > 0 else st.just({})
    single = _of_single(field, depth, strings)
    return st.lists(single, max_size=3 if depth > 0 else 0) if field.is_repeated else single


def _of_single(field: FieldDescriptor, depth: int, strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _deeper(field.message_type, depth - 1, strings) if depth > 0 else st.just(_nothing)
        case FieldDescriptor.CPPTYPE_STRING:
            return st.binary(max_size=20) if field.type == FieldDescriptor.TYPE_BYTES else strings
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return st.one_of(st.sampled_from(FLOATS), st.floats())
    low, high = _RANGES[field.cpp_type]
    numbers = st.integers(low, high)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return st.one_of(st.sampled_from([value.number for value in field.enum_type.values]), numbers)
    return st.one_of(st.sampled_from([number for number in NUMBERS if low <= number <= high]), numbers)


def _deeper(descriptor: Descriptor, depth: int, strings: st.SearchStrategy[str]) -> st.SearchStrategy[Callable[[Any], None]]:
    return st.deferred(lambda: _of_descriptor(descriptor, depth, strings))


def _nothing(_: Any) -> None:
    return


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            if callable(entry):
                entry(getattr(message, field.name)[key])
            else:
                getattr(message, field.name)[key] = entry
    elif isinstance(value, list):
        for entry in value:
            if callable(entry):
                entry(getattr(message, field.name).add())
            else:
                getattr(message, field.name).append(entry)
    elif callable(value):
        getattr(message, field.name).SetInParent()
        value(getattr(message, field.name))
    else:
        setattr(message, field.name, value)
