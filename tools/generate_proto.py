"""Generates grader/v1 from proto/.  With --check changes nothing and fails where the committed files differ."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from pathlib import Path

import google.rpc
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT / "proto"
PACKAGE = Path("grader/v1")


def proto_arguments() -> list[str]:
    """Where protoc looks: our files, googleapis-common-protos, and protoc's own."""
    common = Path(next(iter(google.rpc.__path__))).parents[1]
    return ["-I", str(PROTO), "-I", str(common), "-I", str(Path(protoc.__file__).parent / "_proto")]


def sources() -> list[str]:
    """Every .proto file of ours, in a stable order."""
    return [str(path) for path in sorted(PROTO.rglob("*.proto"))]


def generate(out: Path) -> dict[str, str]:
    """Generate below out, and return the text of every file by its name."""
    version = importlib.metadata.version("grpcio-tools")
    arguments = ["protoc", *proto_arguments(), f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}", *sources()]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its message is above")
    folder = out / PACKAGE
    (folder / "__init__.py").write_text(f'"""Generated from proto/grader/v1 by `make proto` with grpcio-tools {version}; do not edit."""\n')
    for path in folder.glob("*_pb2_grpc.py"):
        if "GraderService" not in path.read_text():  # the files without a service hold nothing
            path.unlink()
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def stale(committed: Path) -> list[str]:
    """Names of files that differ from what proto/ makes now."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = generate(Path(scratch))
    found = {path.name: path.read_text() for path in committed.glob("*") if path.is_file()}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def main() -> int:
    """Generate, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    if not parser.parse_args().check:
        for old in (ROOT / PACKAGE).glob("*_pb2*"):
            old.unlink()
        generate(ROOT)
        return 0
    if names := stale(ROOT / PACKAGE):
        sys.stderr.write(f"out of date: {', '.join(names)} in {PACKAGE}; run `make proto`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
