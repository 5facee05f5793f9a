"""The libraries of CUDA on the emulated device: which headers it has, and what calls one that needs a GPU.  Decides by names alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

from sandbox.compilers import toolkit_headers

ELSEWHERE = "use a CUDA device for this kernel"
NATIVE = Path(__file__).resolve().parent.parent / "native" / "emulated"

# Functions on the host whose work only a GPU's library does: how they begin, and whose they are. Their headers declare types only.
HOST_LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "nccl": "NCCL",
    "nvrtc": "NVRTC",
    "curand": "cuRAND's host functions",
}
_CALL = re.compile(rf"({'|'.join(HOST_LIBRARIES)})(?:[A-Z]\w*|_v2)")

# Parts of the toolkit that are included from where it is installed.
FROM_TOOLKIT = ("cuda/std/", "thrust/", "nv/")
# Synchronisation of libcu++ that would spin without letting the other threads of a block run.
WITHOUT_YIELD = ("cuda/latch", "cuda/semaphore", "cuda/std/latch", "cuda/std/semaphore")
CUTLASS = ("cute/", "cutlass/")

_ERROR = re.compile(r"^[^:\n]+:\d+:\d+: (?:fatal )?error: (?P<message>.*)$", re.MULTILINE)
_QUOTED = r"[‘'](?P<name>\w+)[’']"
_UNKNOWN = (
    re.compile(rf"{_QUOTED} was not declared in this scope"),
    re.compile(rf"{_QUOTED} does not name a type"),
    re.compile(rf"{_QUOTED} has not been declared"),
    re.compile(rf"{_QUOTED} is not a member of [‘'](?:cuda|cub|thrust|cooperative_groups|nvcuda)\b"),
    re.compile(rf"there are no arguments to {_QUOTED} that depend on a template parameter"),
)
_CUDA_NAME = re.compile(r"cuda[A-Z]\w*|curand\w+|cu[A-Z]\w*|CU[A-Z_]\w*|CUDA_\w+|__[a-z]\w*")
_WORD = re.compile(r"[A-Za-z_]\w*")
CLOSE = 0.8


def called(name: str) -> str | None:
    """The sentence about a call of this function, where it belongs to a library that the emulated device has not."""
    match = _CALL.fullmatch(name)
    if match is None or name.endswith("_t"):
        return None
    return f"the emulated device has no {HOST_LIBRARIES[match[1]]}, of which {name} is called here; {ELSEWHERE}"


def missing_header(name: str, *, in_toolkit: Callable[[str], bool] = toolkit_headers.has) -> str | None:
    """The sentence about an include of a library's header that is not there; None for all others."""
    if name.startswith(CUTLASS):
        return f"CUTLASS is not installed for the emulated device, which has no {name}; {ELSEWHERE}"
    if name in WITHOUT_YIELD:
        return f"the emulated device has no {name}; {ELSEWHERE}"
    if name.startswith("thrust/system/cuda/") and name != "thrust/system/cuda/execution_policy.h":
        return f"the emulated device has no {name}: there, Thrust works on the host; {ELSEWHERE}"
    if (NATIVE / name).is_file() and not name.startswith("thrust/"):
        return None
    if name.startswith("cub/"):
        return f"the emulated device has no {name}, only the parts of CUB that most kernels use; {ELSEWHERE}"
    # A header with a suffix in a directory `cuda` is the submission's own: libcu++ has none.
    taken = name.startswith(FROM_TOOLKIT) or (name.startswith("cuda/") and "." not in name)
    if taken and not in_toolkit(name):
        return f"the emulated device takes {name} from the CUDA toolkit, and it is not installed here; {ELSEWHERE}"
    return None


def unknown_name(log: str, texts: str) -> str | None:
    """The sentence about the first error of g++, where that is a name of CUDA's which the emulated device has not.

    A slip in a name that the source itself declares stays an error, whatever the name begins with. texts: all sources.
    """
    first = _ERROR.search(log)
    found = None if first is None else next((match for pattern in _UNKNOWN if (match := pattern.search(first["message"]))), None)
    if found is None:
        return None
    name, member = found["name"], "is not a member of" in found[0]
    if not member and not _CUDA_NAME.fullmatch(name):
        return None
    own = {word for word in set(_WORD.findall(texts)) - {name} if _declares(texts, word)}
    if difflib.get_close_matches(name, own, n=1, cutoff=CLOSE):
        return None
    return f"the emulated device has no {name}; {ELSEWHERE}"


def _declares(texts: str, name: str) -> bool:
    """Whether the sources seem to declare it: behind a type, or as a macro."""
    if len(name) < 3:
        return False
    return re.search(rf"(?:#\s*define\s+|(?<!return)(?<![=(,;{{}}])[\w>*&]\s*[\s*&]){name}\s*[({{\[;=,)<:]", texts) is not None
