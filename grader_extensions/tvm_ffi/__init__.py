"""The language `tvm_ffi`: CUDA bound by TVM-FFI, as FlashInfer-Bench has it."""

from __future__ import annotations

import re

from sandbox.protocol.languages import C_SUFFIXES, LanguageInfo

INFO = LanguageInfo(
    name="tvm_ffi",
    module="grader_extensions.tvm_ffi.language",
    suffixes=C_SUFFIXES,
    marker=re.compile(r"\btvm/ffi/|\bTVM_FFI_"),
    is_c=True,
    needs_torch=True,
)
