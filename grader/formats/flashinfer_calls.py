"""How a submission's entry to a flashinfer problem is called: with its inputs, or with its outputs behind them ("destination passing").

A line `grader: destination=true` in a comment decides it. Of other Python sources the number of the entry's parameters does.
"""

from __future__ import annotations

import ast
import dataclasses
import re

from grader.model import NewSubmission
from sandbox.protocol import wire

RUN = "run"
ENTRIES = (RUN, "solution", "custom_kernel")
PARSED_LIMIT_BYTES = 256 * 1024  # of a submission: Python takes a GB of memory and 4 s for a MiB that is made for it
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
    Where it can't be determined from the source, as of `def run(*arguments)` or of a very long one, the outputs are returned."""
    function = _entry(source, entry)
    if function is None or function.args.vararg is not None:
        return spec
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    returned, all_of = len(spec.inputs), len(spec.inputs) + len(spec.outputs)
    needed = len(names) - len(function.args.defaults)
    named = names[returned:all_of] == [one.name for one in spec.outputs]
    if needed <= all_of <= len(names) and (needed > returned or named):
        return dataclasses.replace(spec, convention=wire.Convention.DESTINATION)
    return spec


def _entry(source: str, entry: str) -> ast.FunctionDef | None:
    if len(source.encode()) > PARSED_LIMIT_BYTES:
        return None
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the build reports it
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    found = next((functions[name] for name in (entry, *ENTRIES) if name in functions), None)
    return found or (next(iter(functions.values())) if len(functions) == 1 else None)
