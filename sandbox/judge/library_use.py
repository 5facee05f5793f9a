"""Finds the functions of PyTorch's and NVIDIA's libraries that a kernel uses, where its problem asks.

From the artifact's own symbols, which can't lie, and from trials under observation, of which the runner tells: it can only incriminate
itself. A trial that is observed is verified like all others, so that the work that is judged is the work that was observed.

A kernel is the submission's own where its device code defines it: symbols of its cubins and PTX, and its Triton and Numba functions. The
judge reads what an attacker chose. Work stays in proportion to the artifact, and what no compiler or linker writes defines nothing: neither
a comment nor a string of a source, nor a string of an object.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from sandbox.judge.runner_link import Silence, is_ok
from sandbox.protocol import elf, wire
from sandbox.protocol.gate import CUT, Answer, Operation
from sandbox.protocol.python_archive import EXTENSIONS, FILE_COUNT_LIMIT, SOURCES
from sandbox.protocol.source_tokens import COMMENT, PYTHON, STRING, tokens

NAMES_LIMIT = 32
NAME_LIMIT = 200  # characters of one: a compiler takes names of megabytes, and a fact is one line
OBSERVE_S = 30.0  # for the observing itself, next to what the launch may take
UNTOLD = "functions for which there was no room"
UNREADABLE = "functions that its symbols do not tell"
ON_HIDDEN = "functions that only hidden workloads meet"
# Operators that compute nothing: memory, shapes, and moving values as they are.
_HARMLESS = """
    alias as_strided chunk clone contiguous copy copy_ data_ptr detach detach_ empty empty_like empty_strided expand expand_as fill_ flatten
    full full_like item lift_fresh narrow new_empty new_empty_strided new_full new_ones new_zeros numpy_T ones ones_like permute pin_memory
    record_stream reshape resize_ select set_ size slice split squeeze t to transpose unbind unflatten unsqueeze view view_as zero_ zeros
    zeros_like is_pinned result_type _pin_memory _local_scalar_dense _reshape_alias _to_copy _unsafe_view
"""
HARMLESS = frozenset(_HARMLESS.split())
_OPERATOR = re.compile(r"_ZN2at4_ops\d++(\w+?)(?:4call|10redispatch)E")
_INTERNAL = re.compile(r"_ZN2at(?:6native|4cuda4blas)\d++(\w+?)E")
_LIBRARY = re.compile(r"(cublas|cudnn|cufft|cusparse|cusolver|cutensor|curand|nccl|npp|mkl_|cblas_)\w+")
# Kernels of PyTorch, cuBLAS, cuDNN and CUTLASS. An artifact that defines one of that name has its name, or the library's source: it counts.
_LIBRARY_KERNEL = re.compile(
    r"(?:at|at_cuda_detail|c10|cutlass|cublas\w*|cudnn\w*|cask\w*|pytorch_flash|magma\w*|cusparse|cusolver|cufft|nccl)::"
    r"|(?:cublas|cudnn|cutlass_|nvjet_|cufft|cusparse|cusolver|nccl|magma_|fmha_cutlass)"
    r"|(?:sm\d{2,3}|kepler|maxwell|pascal|volta|turing|ampere|hopper|blackwell)_\w*(?:xmma|gemm|gemv|cudnn|conv)"
)
SOURCE_LIMIT_BYTES = 1 << 20
NAME_COUNT_LIMIT = 20_000  # of one file; libraries of templates have hundreds
_PYTHON_TOKEN = re.compile(r"\b[^\W\d]\w*+|[^\w\s]|\n")
_MANGLED = re.compile(r"_Z(N?)[rVK]*(?:St)?")
_LENGTH = re.compile(r"L?(\d{1,5})")  # L: of internal linkage
_SPECIALISED = re.compile(r"_[0-9][0-9cde]*$")  # as older Tritons end a name: add_kernel_0d1d2d


class LibraryUse:
    """Library functions that an artifact uses, from its symbols and from the trials that were observed."""

    def __init__(self, problem: wire.ProblemSpec, artifact: bytes) -> None:
        self._problem, self._artifact = problem, artifact
        self._imported = from_symbols(artifact)
        # Lines of public and of hidden workloads.
        self._observed: dict[bool, dict[str, None]] = {False: {}, True: {}}

    @property
    def operation(self) -> Operation:
        """The operation of an observed trial."""
        forbidden = self._problem.libraries is wire.Libraries.FORBIDDEN
        return Operation.OBSERVE_KERNELS if forbidden else Operation.OBSERVE

    @property
    def limit_s(self) -> float:
        """How long an observed trial may take."""
        return OBSERVE_S + self._problem.trial_s

    def add(self, reply: Answer | Silence, *, hidden: bool) -> None:
        """Note the answer to an observed trial. If the trial failed, that is what decides."""
        if is_ok(reply):
            self._observed[hidden].update(dict.fromkeys(reply.message.splitlines()))

    def evidence(self) -> wire.Evidence:
        """Everything so far. No name that comes from a hidden workload is reported, for the runner
        makes them up: only whether there is one that public workloads did not show."""
        names, on_hidden = (from_run("\n".join(lines), self._artifact) for lines in self._observed.values())
        if set(on_hidden) - set(names):
            names = (*names, ON_HIDDEN)
        return wire.Evidence(policy=self._problem.libraries, imported=self._imported, seen=names)


def from_symbols(artifact: bytes) -> tuple[str, ...]:
    """Functions of libraries that the artifact wants, as people call them."""
    return _few(name for symbol in _wanted(artifact) if (name := _library_function(symbol)) is not None)


def from_run(observed: str, artifact: bytes) -> tuple[str, ...]:
    """Return the calls of the run under observation: operators that compute, NumPy, and kernels that the artifact's device code does not
    define, or that have the name of a library's."""
    names = []
    device_code = DeviceCode(artifact) if "kernel " in observed else None
    for line in observed.splitlines():
        kind, _, name = line.partition(" ")
        if kind == "operator" and name and name not in HARMLESS:
            names.append(f"torch.{name}")
        elif kind == "kernel" and name and (_LIBRARY_KERNEL.match(name) or device_code is None or not device_code.defines(name)):
            names.append(f"the kernel {name}")
        elif kind == "library" and name:
            names.append(name)
        elif kind == CUT:
            names.append(UNTOLD)
    return _few(names)


def own_share(observed: str, artifact: bytes) -> float | None:
    """Return the share of the kernels that the artifact's device code defines in the times, or launches, that its runner tells; None where
    it tells of none. Templates of CUTLASS count as the artifact's: it chose them."""
    device_code, own_amount, total = DeviceCode(artifact), 0, 0
    for line in observed.splitlines():
        amount, kind, name = (*line.split(" ", 2), "", "")[:3]
        if amount.isascii() and amount.isdecimal() and not (kind == "operator" and name in HARMLESS):
            total += int(amount)
            of_library = _LIBRARY_KERNEL.match(name) and not name.startswith("cutlass::")
            if kind == "launch" or (kind == "kernel" and device_code.defines(name) and not of_library):
                own_amount += int(amount)
    return own_amount / total if total else None


def _wanted(artifact: bytes) -> Iterator[str]:
    """The symbols that it wants of others, or that the extensions in a Python module's archive want."""
    for path, content in members(artifact):
        if path and not path.startswith(f"{EXTENSIONS}/"):
            continue
        try:
            yield from elf.undefined_names(content)
        except elf.Damaged:  # no linker wrote it, and it was loaded all the same: silence must not acquit it
            yield UNREADABLE
        except elf.NotAnObject:
            continue


def _library_function(symbol: str) -> str | None:
    if match := _OPERATOR.match(symbol):
        # `matmul` of `add_Tensor`'s kind: an operator's overload is recognised by what follows its last underscore and a capital letter.
        name = re.sub(r"_[A-Z]\w*$|_out$|_(?:int|dim|names|memory_format|dtype)$", "", match[1])
        return None if name in HARMLESS else f"at::{name}"
    if match := _INTERNAL.match(symbol):
        return f"at::native::{match[1]}"
    return symbol if symbol == UNREADABLE or _LIBRARY.match(symbol) else None


def _few(names: Iterable[str]) -> tuple[str, ...]:
    """The first ones, each once: no more is asked for, and what differs only after the cut is one."""
    few: dict[str, None] = {}
    for name in names:
        few[name if len(name) <= NAME_LIMIT else f"{name[:NAME_LIMIT]}..."] = None
        if len(few) == NAMES_LIMIT:
            break
    return tuple(few)


class DeviceCode:
    """Definitions of an artifact: the kernels of its device code and its Python functions, by names without namespaces."""

    def __init__(self, artifact: bytes) -> None:
        self._symbols: set[str] = set()
        self._functions: set[str] = set()
        for path, content in members(artifact):
            if len(self._symbols) + len(self._functions) >= NAME_COUNT_LIMIT:
                break
            if content.startswith(elf.MAGIC):
                with suppress(elf.NotAnObject):  # none where a part of it is damaged
                    self._symbols.update(map(source_name, list(elf.kernel_names(content))[:NAME_COUNT_LIMIT]))
            elif path.startswith(f"{SOURCES}/") and path.endswith(".py"):
                self._functions.update(islice(jit_functions(content), NAME_COUNT_LIMIT))

    def defines(self, kernel: str) -> bool:
        """Return whether a kernel of this name, without templates and arguments, is of this code."""
        name = kernel.rpartition("::")[2]
        return name in self._symbols or name in self._functions or _SPECIALISED.sub("", name) in self._functions


def members(artifact: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of a Python module's archive by their paths, or the artifact itself as the only one. A damaged archive ends early."""
    if artifact.startswith(elf.MAGIC):
        yield "", artifact
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(artifact), mode="r:") as archive:
            for number, entry in enumerate(archive):
                if number >= FILE_COUNT_LIMIT:
                    return
                if entry.isreg() and not entry.issparse() and (file := archive.extractfile(entry)) is not None:
                    yield entry.name, file.read()
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        return


def jit_functions(source: bytes) -> Iterator[str]:
    """The functions that a Python source decorates with `jit`, or hands to it: `@triton.jit`, `@cuda.jit(...)`, `cuda.jit(add)`."""
    if len(source) > SOURCE_LIMIT_BYTES:
        return
    parts = tokens(PYTHON, source.decode(errors="replace").replace("\r\n", "\n"))
    text = "".join(" " if kind in (COMMENT, STRING) else part for kind, part in parts).replace("\\\n", " ")
    line, depth, decorated = list[str](), 0, False
    for match in _PYTHON_TOKEN.finditer(text + "\n"):
        word = match[0]
        if word != "\n":
            depth = max(depth + (word in "([{") - (word in ")]}"), 0)
            line.append(word)
        elif line and not depth:
            if line[0] == "@":
                decorated = decorated or "jit" in line
            else:
                if decorated and line[0] == "def" and len(line) > 1:
                    yield line[1]
                decorated = False
                yield from (line[at + 2] for at, part in enumerate(line[:-2]) if part == "jit" and line[at + 1] == "(")
            line = []


def source_name(symbol: str) -> str:
    """A function's own name in a mangled one: `f` of `_ZN1a1fILi1EEEvPf`; a name that is not mangled, or by no rule known here, as it is.

    <name> of the Itanium C++ ABI 5.1.3: parts that begin with their length, between N and E where there are namespaces. A kernel is a
    function at namespace scope, so the last part is its own. An anonymous namespace's may end with a digit.
    """
    if (start := _MANGLED.match(symbol)) is None:
        return symbol
    at, name = start.end(), symbol
    while (length := _LENGTH.match(symbol, at)) is not None:
        at = length.end() + int(length[1])
        name = symbol[length.end() : at]
        if start[1] != "N":  # what follows are the types of its parameters
            break
    return name
