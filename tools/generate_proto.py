"""Generates grader/v1 and grader/fleet/v1 from proto/.  With --check changes nothing and fails where the committed files differ."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT / "proto"
PACKAGES = (Path("grader/v1"), Path("grader/fleet/v1"))


def proto_arguments() -> list[str]:
    """Where protoc looks: proto/, which has all that it imports, and protoc's own."""
    return ["-I", str(PROTO), "-I", str(Path(protoc.__file__).parent / "_proto")]


def sources() -> list[str]:
    """Every .proto file of ours, in a stable order."""
    return [str(path) for path in sorted((PROTO / "grader").rglob("*.proto"))]


def public_sources() -> list[str]:
    """Those of the public API."""
    return [path for path in sources() if PROTO / "grader" / "fleet" not in Path(path).parents]


def generate(out: Path) -> dict[str, str]:
    """Generate below out, and return the text of every file by its path."""
    version = importlib.metadata.version("grpcio-tools")
    arguments = ["protoc", *proto_arguments(), f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}", *sources()]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its message is above")
    for package in PACKAGES:
        folder, text = out / package, f"Generated from proto/{package} by `make proto` with grpcio-tools {version}; do not edit."
        (folder / "__init__.py").write_text(f'"""{text}"""\n')
        for path in folder.glob("*_pb2_grpc.py"):
            if "Servicer" not in path.read_text():  # the files without a service hold nothing
                path.unlink()
    return _texts(out)


def stale(committed: Path) -> list[str]:
    """Paths of files that differ from what proto/ makes now. committed: the root of the repository, or what looks like it."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = generate(Path(scratch))
    existing = _texts(committed)
    return sorted(name for name in {*wanted, *existing} if wanted.get(name) != existing.get(name))


def _texts(root: Path) -> dict[str, str]:
    return {str(package / path.name): path.read_text() for package in PACKAGES for path in (root / package).glob("*") if path.is_file()}


def main() -> int:
    """Generate, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    if not parser.parse_args().check:
        for package in PACKAGES:
            for old in (ROOT / package).glob("*_pb2*"):
                old.unlink()
        generate(ROOT)
        return 0
    if names := stale(ROOT):
        sys.stderr.write(f"out of date: {', '.join(names)}; run `make proto`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
