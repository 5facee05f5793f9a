"""Where a tensor lies in a safetensors file, read from the file's header alone."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

HEADER_LIMIT_BYTES, TENSOR_LIMIT_BYTES = 16 << 20, 1 << 30
TOTAL_LIMIT_BYTES = 16 << 30  # of one problem
RANK_LIMIT, SIZE_LIMIT = 32, 1 << 40
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "BOOL": "bool",
}  # fmt: skip


ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "bool": 1,
}  # fmt: skip


class SafetensorsInvalid(ValueError):
    """A file that can't be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor in a file: bytes from begin to end, and their sha256."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    digest: str


@dataclass(slots=True)
class Left:
    """How many bytes of tensors may still be read for a problem: each is hashed."""

    bytes: int = TOTAL_LIMIT_BYTES


def find(path: Path, key: str, *, limit_bytes: int = TOTAL_LIMIT_BYTES) -> StoredTensor:
    """The tensor of that key. limit_bytes: what the problem's other tensors leave."""
    if not path.is_file():
        raise SafetensorsInvalid(
            "is not there; fetch the data of the problem set too (such as by `git lfs pull`), or leave the workload out"
        )
    with path.open("rb") as file:
        count = int.from_bytes(file.read(8), "little")
        if not 2 <= count <= HEADER_LIMIT_BYTES:
            raise SafetensorsInvalid("is not a safetensors file; if it is a pointer of git LFS, fetch what it points to by `git lfs pull`")
        try:
            entry = json.loads(file.read(count))[key]
            begin, end = (8 + count + int(one) for one in entry["data_offsets"])
            dtype, shape = DTYPES[entry["dtype"]], tuple(int(size) for size in entry["shape"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise SafetensorsInvalid(f"has no tensor {key!r} of a known dtype ({type(error).__name__}: {error}); fix tensor_key") from None
        size = path.stat().st_size
        if not (8 + count <= begin <= end <= size and end - begin <= TENSOR_LIMIT_BYTES and min(shape, default=1) >= 0):
            raise SafetensorsInvalid(f"is cut off, or {key!r} has over {TENSOR_LIMIT_BYTES} bytes; fetch it again")
        if end - begin > limit_bytes:
            raise SafetensorsInvalid(f"is too much: the tensors of a problem may have {TOTAL_LIMIT_BYTES} bytes; leave workloads out")
        if len(shape) > RANK_LIMIT or max(shape, default=0) > SIZE_LIMIT:
            raise SafetensorsInvalid(f"says of {key!r} that it has a shape that no tensor has; fetch it again")
        if end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
            raise SafetensorsInvalid(f"says of {key!r} that {end - begin} bytes are of the shape {list(shape)}; fetch it again")
        file.seek(begin)
        digest = hashlib.sha256()
        while begin + (left := end - file.tell()) > begin:
            digest.update(file.read(min(left, 1 << 20)))
    return StoredTensor(dtype=dtype, shape=shape, begin=begin, end=end, digest=digest.hexdigest())
