"""How a process in a box leaves a file in {out}."""

from __future__ import annotations

import os
from pathlib import Path


def leave(out_dir: Path, name: str, content: bytes) -> None:
    """Write a result. What lies there under its name goes first: a submission that has run here may have left a link or a pipe."""
    (out_dir / name).unlink(missing_ok=True)
    with open(os.open(out_dir / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        file.write(content)
