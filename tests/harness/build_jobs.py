"""Writes what a builder reads, as the server writes it for a box."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.protocol import wire
from sandbox.protocol.languages import module_of


def write_job(source: Path, files: Mapping[str, str], *, modules: Mapping[str, str] | None = None, **fields: Any) -> None:
    """Write a submission's files, and a problem's modules, each by its path, and the job: of CUDA for the emulated device unless said."""
    for folder, texts in (("files", files), ("modules", modules or {})):
        for path, text in texts.items():
            (source / folder / path).parent.mkdir(parents=True, exist_ok=True)
            (source / folder / path).write_text(text, "utf-8")
    usual = {"language": "cuda", "entry": "solve", "device_kind": "emulated", "modules": tuple(modules or ())}
    values = {**usual, "sources": tuple(files), **fields}
    job = wire.BuildJob(**{"language_module": module_of(values["language"]), **values})
    (source / "job.json").write_bytes(wire.encode(job))
