"""How a submission's entry to a flashinfer problem is called: with its inputs, or with its outputs behind them ("destination passing").

A line `grader: destination=true` in a comment decides it. Of other Python sources the number of the entry's parameters does.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from grader.model import NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.source_tokens import COMMENT, PYTHON, STRING, tokens

_Parameter = tuple[str, bool]  # its text, without strings and comments, and whether it has a default

RUN = "run"
ENTRIES = (RUN, "solution", "custom_kernel")
_ATOM = re.compile(r"^[\f\ufeff]*+def[ \t]++(\w++)[ \t]*+\(|\blambda\b|[(\[{)\]},:=]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*(?://|#)[ \t]*grader:[^\n]*\bdestination=(true|false)\b", re.MULTILINE)


def with_calling_convention(spec: wire.ProblemSpec, new: NewSubmission) -> wire.ProblemSpec:
    """The spec as a submission's entry takes it. A raw CUDA entry has its own convention: it always gets its outputs."""
    if new.language == "cuda":
        return spec
    for source in new.sources:
        if (match := _DIRECTIVE.search(source.content)) is not None:
            return dataclasses.replace(spec, convention=wire.Convention.DESTINATION) if match[1] == "true" else spec
    if new.language != "python":
        return spec
    entry, texts = new.entry or spec.entry, [one.content for one in new.sources if one.path.endswith(".py")]
    main = next((text for text in texts if _entry(text, entry) is not None), "")  # the first file with an entry is the main file
    return with_destination(spec, main, entry)


def with_destination(spec: wire.ProblemSpec, source: str, entry: str) -> wire.ProblemSpec:
    """The spec for a Python source: an entry with as many parameters as there are inputs and outputs writes its outputs into the last.
    Where it can't be determined from the source, as of `def run(*arguments)`, the outputs are returned."""
    parameters = _entry(source, entry)
    if parameters is None or any(re.match(r"\*\s*\w", text) for text, _ in parameters):
        return spec
    stars = (place for place, (text, _) in enumerate(parameters) if text.startswith("*"))
    positional = [parameter for parameter in parameters[: next(stars, None)] if parameter[0] != "/"]
    names = [re.sub(r"\W.*", "", text, flags=re.DOTALL) for text, _ in positional]
    returned, all_of = len(spec.inputs), len(spec.inputs) + len(spec.outputs)
    needed = sum(not has_default for _, has_default in positional)
    named = names[returned:all_of] == [one.name for one in spec.outputs]
    if needed <= all_of <= len(names) and (needed > returned or named):
        return dataclasses.replace(spec, convention=wire.Convention.DESTINATION)
    return spec


def _entry(source: str, entry: str) -> list[_Parameter] | None:
    functions = {name: parameters for name, parameters in _functions(source) if not name.startswith("_")}
    only = next(iter(functions.values())) if len(functions) == 1 else None
    return next((functions[name] for name in (entry, *ENTRIES) if name in functions), only)


def _functions(source: str) -> Iterator[tuple[str, list[_Parameter]]]:
    """The functions of a module. The source is a stranger's, so it is read once, from left to right, and not parsed."""
    parts = tokens(PYTHON, source.replace("\r\n", "\n").replace("\r", "\n"))
    text = "".join("''" if kind == STRING else "" if kind == COMMENT else part for kind, part in parts).replace("\\\n", " ")
    name, parameters, start, has_default, depth, lambdas = "", list[_Parameter](), 0, False, 0, 0
    for atom in _ATOM.finditer(text):
        match atom[0]:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth = max(depth - 1, 0)
            case "lambda" if depth == 1:
                lambdas += 1
            case ":" if depth == 1:
                lambdas = max(lambdas - 1, 0)
            case "=" if depth == 1:
                has_default = True
            case _ if atom[1] and depth == 0:
                name, parameters, start, has_default, depth, lambdas = atom[1], [], atom.end(), False, 1, 0
        if name and (depth == 0 or (depth == 1 and atom[0] == "," and not lambdas)):
            if parameter := text[start : atom.start()].strip():
                parameters.append((parameter, has_default))
            start, has_default = atom.end(), False
            if depth == 0:
                yield name, parameters
                name = ""
