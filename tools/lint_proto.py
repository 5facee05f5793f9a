"""Lints proto/ with buf and buf.yaml, offline: buf reads a descriptor image that protoc made, so that no import is fetched."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generate_proto import ROOT, proto_arguments, sources
from grpc_tools import protoc


def main() -> int:
    """Lint; 0 where buf has nothing to say."""
    installed = Path(sys.executable).with_name("buf")
    buf = str(installed) if installed.exists() else shutil.which("buf")
    if buf is None:
        sys.stderr.write("buf is missing; `make setup-dev` installs it\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "image.binpb"
        options = ["--include_imports", "--include_source_info", f"--descriptor_set_out={image}"]
        if protoc.main(["protoc", *proto_arguments(), *options, *sources()]) != 0:
            return 1
        return subprocess.run([buf, "lint", str(image), "--config", str(ROOT / "buf.yaml")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
