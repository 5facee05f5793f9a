"""Which version of messages, gate and arena a process speaks.  `python -m sandbox.protocol.version` prints it.

Judge and runner each have a copy of this package; a box made from an image may have an outdated one. The version is a digest of the
files that both sides have to agree on, so that nobody has to remember to count.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

PARTS = ("protocol/wire.py", "protocol/gate.py", "protocol/box_files.py", "launch/loop.py", "runner/run.py", "builder/build.py")
DIGITS = 16


def version_of(directory: Path) -> str:
    """The version that a copy of this package speaks: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(part.encode() + b"\0" + (directory / part).read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]


VERSION = version_of(Path(__file__).parents[1])

if __name__ == "__main__":
    sys.stdout.write(VERSION + "\n")
