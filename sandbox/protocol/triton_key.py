"""The names by which Triton finds what it has compiled: of the source, and of `platform.architecture()`, which asks the program `file`.

A judge compiles for boxes, and a build box for a run box. If one of them has `file` and the other does not, nothing is found, and a run
box can't compile. So all three answer the same.
"""

from __future__ import annotations

import platform
import sys

ARCHITECTURE = ("64bit", "ELF")


def fix_triton_key() -> None:
    """Let `platform.architecture()` of this process ask nobody. Call it before triton is used."""

    def architecture(executable: str = sys.executable, bits: str = "", linkage: str = "") -> tuple[str, str]:
        return ARCHITECTURE

    platform.architecture = architecture
