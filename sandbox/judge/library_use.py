"""What of PyTorch's and NVIDIA's libraries a kernel uses, where its problem asks.

From the artifact's own symbols, which can't lie, and from a run under observation, of which the runner tells: it can only incriminate
itself. A name in a comment or a string decides nothing: a kernel is the submission's own where its device code defines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sandbox.judge.device_code import DeviceCode, members
from sandbox.judge.run.runner_link import RunnerLink
from sandbox.protocol import elf, wire
from sandbox.protocol.gate import CUT, Answer, Call, Operation, Status
from sandbox.protocol.python_archive import EXTENSIONS

NAMES_LIMIT = 32
NAME_LIMIT = 200  # characters of one: a compiler takes names of megabytes, and a fact is one line
OBSERVE_S = 30.0  # for the observing itself, next to what the launches may take
LAUNCHES = 2
UNSEEN = "functions that failed when they were looked at"
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


def evidence(
    problem: wire.ProblemSpec, artifact: bytes, subject: RunnerLink, *, hidden: bool, before: wire.Evidence | None
) -> wire.Evidence | None:
    """What there is to say; None where the problem does not ask. The runner's last placement is launched once more. hidden: it is a hidden
    workload's, and no name of it is reported, for the runner makes them up: only whether there is one that was not known before."""
    if problem.libraries is wire.Libraries.ALLOWED:
        return None
    imported, hints = from_symbols(artifact) if before is None else (before.imported, before.hints)
    # A kernel that was right in every trial and fails when it is looked at has something to hide; silence must not acquit it.
    observed = _observed(subject, OBSERVE_S + LAUNCHES * problem.trial_s, thoroughly=problem.libraries is wire.Libraries.FORBIDDEN)
    seen = (UNSEEN,) if observed is None else from_run(observed, artifact)
    if hidden:
        seen = (ON_HIDDEN,) if set(seen) - set(() if before is None else before.seen) else ()
    return wire.Evidence(policy=problem.libraries, imported=imported, seen=seen, hints=hints)


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


def _observed(subject: RunnerLink, limit_s: float, *, thoroughly: bool) -> str | None:
    reply = subject.call(Call(operation=Operation.OBSERVE, variant=int(thoroughly)), limit_s)
    return reply.message if isinstance(reply, Answer) and reply.status is Status.OK else None


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
