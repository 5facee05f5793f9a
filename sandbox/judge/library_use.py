"""What of PyTorch's and NVIDIA's libraries a kernel uses, where its problem asks.

From the artifact's own symbols, which can't lie, and from trials under observation, of which the
runner tells: it can only incriminate itself. A trial that is observed is verified like all others,
so that the work that is judged is the work that was observed. A name in a comment or a string
decides nothing: a kernel is the submission's own where its device code defines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sandbox.judge.device_code import DeviceCode, members
from sandbox.judge.run.runner_link import Silence
from sandbox.protocol import elf, wire
from sandbox.protocol.gate import CUT, Answer, Operation, Status
from sandbox.protocol.python_archive import EXTENSIONS

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
_LOADER = frozenset(("dlopen", "dlsym", "dlmopen"))


class LibraryUse:
    """What one artifact is known to use, from its symbols and from the trials that were observed."""

    def __init__(self, problem: wire.ProblemSpec, artifact: bytes) -> None:
        self._problem, self._artifact = problem, artifact
        self._imported, self._hints = from_symbols(artifact)
        # Lines of public and of hidden workloads.
        self._observed: dict[bool, dict[str, None]] = {False: {}, True: {}}

    @property
    def operation(self) -> Operation:
        """What an observed trial has the runner do."""
        forbidden = self._problem.libraries is wire.Libraries.FORBIDDEN
        return Operation.OBSERVE_KERNELS if forbidden else Operation.OBSERVE

    @property
    def limit_s(self) -> float:
        """How long an observed trial may take."""
        return OBSERVE_S + self._problem.trial_s

    def add(self, reply: Answer | Silence, *, hidden: bool) -> None:
        """Note the answer to an observed trial. If the trial failed, that is what decides."""
        if isinstance(reply, Answer) and reply.status is Status.OK:
            self._observed[hidden].update(dict.fromkeys(reply.message.splitlines()))

    def evidence(self) -> wire.Evidence:
        """Everything so far. No name that comes from a hidden workload is reported, for the runner
        makes them up: only whether there is one that public workloads did not show."""
        seen, on_hidden = (from_run("\n".join(lines), self._artifact) for lines in self._observed.values())
        if set(on_hidden) - set(seen):
            seen = (*seen, ON_HIDDEN)
        return wire.Evidence(policy=self._problem.libraries, imported=self._imported, seen=seen, hints=self._hints)


def from_symbols(artifact: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Functions of libraries that the artifact wants, as people call them; and what lets it find more while it runs."""
    imported = _few(name for symbol in _wanted(artifact) if (name := _library_function(symbol)) is not None)
    return imported, _few(symbol for symbol in _wanted(artifact) if symbol in _LOADER)


def from_run(observed: str, artifact: bytes) -> tuple[str, ...]:
    """What was called in the run under observation: operators that compute, NumPy, and kernels that the artifact's device code does not
    define, or that have the name of a library's."""
    found = []
    own = DeviceCode(artifact) if "kernel " in observed else None
    for line in observed.splitlines():
        kind, _, name = line.partition(" ")
        if kind == "operator" and name and name not in HARMLESS:
            found.append(f"torch.{name}")
        elif kind == "kernel" and name and (_LIBRARY_KERNEL.match(name) or own is None or not own.defines(name)):
            found.append(f"the kernel {name}")
        elif kind == "library" and name:
            found.append(name)
        elif kind == CUT:
            found.append(UNTOLD)
    return _few(found)


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
        name = _operator(match[1])
        return None if name in HARMLESS else f"at::{name}"
    if match := _INTERNAL.match(symbol):
        return f"at::native::{match[1]}"
    return symbol if symbol == UNREADABLE or _LIBRARY.match(symbol) else None


def _operator(name: str) -> str:
    """`matmul` of `add_Tensor`'s kind: an operator's overload is recognised by what follows its last underscore and a capital letter."""
    return re.sub(r"_[A-Z]\w*$|_out$|_(?:int|dim|names|memory_format|dtype)$", "", name)


def _few(names: Iterable[str]) -> tuple[str, ...]:
    """The first ones, each once: no more is asked for, and what differs only after the cut is one."""
    few: dict[str, None] = {}
    for name in names:
        few[name if len(name) <= NAME_LIMIT else f"{name[:NAME_LIMIT]}..."] = None
        if len(few) == NAMES_LIMIT:
            break
    return tuple(few)
