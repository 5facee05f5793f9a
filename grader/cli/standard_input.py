"""Reads a kernel from standard input, for `grader-cli submit -`."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

from grader.cli.exits import UsageError
from grader.model import SOURCE_LIMIT_BYTES

STDIN = Path("-")
_PIECE_BYTES = 64 * 1024
_COMPILED = ("#include", "__global__", 'extern "C"', "PYBIND11_MODULE", "TORCH_LIBRARY")
_LANGUAGE_NAMES = {"python": "kernel.py", "cuda": "kernel.cu", "torch_extension": "kernel.cu"}


async def read_stdin() -> str:
    """All of it, as text. Read so that Ctrl-C ends the command meanwhile. UsageError where it is no source."""
    try:
        descriptor = sys.stdin.fileno()
    except (io.UnsupportedOperation, ValueError):  # in a program that calls this one
        found = sys.stdin.buffer.read(SOURCE_LIMIT_BYTES + 1)
    else:
        found = await _read(descriptor)
    if len(found) > SOURCE_LIMIT_BYTES:
        raise UsageError(
            f"sources: standard input has more than the {SOURCE_LIMIT_BYTES:,} bytes allowed; leave out what is not source text"
        )
    if not found.strip():
        raise UsageError("sources: standard input is empty; pipe the kernel in: grader-cli submit - --problem NAME < FILE")
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"sources: standard input is not UTF-8 (byte {error.start}); convert it to UTF-8") from None


def file_name(content: str, language: str) -> str:
    """What a kernel is called that has no name: its language is known by the ending."""
    if language in _LANGUAGE_NAMES:
        return _LANGUAGE_NAMES[language]
    if content.lstrip().startswith("{"):
        raise UsageError("sources: standard input looks like a solution file; write it to a file that ends in .json, and submit that")
    return _LANGUAGE_NAMES["cuda" if any(word in _without_strings(content) for word in _COMPILED) else "python"]


def _without_strings(content: str) -> str:
    """The lines up to Python's first import: one that holds CUDA in a string begins with Python."""
    lines = content.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith(("import ", "from "))), len(lines))
    return "\n".join(lines[:first])


async def _read(descriptor: int) -> bytes:
    loop, ready, found = asyncio.get_running_loop(), asyncio.Event(), bytearray()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a regular file: it is always ready
        return sys.stdin.buffer.read(SOURCE_LIMIT_BYTES + 1)
    try:
        while len(found) <= SOURCE_LIMIT_BYTES:
            await ready.wait()
            ready.clear()
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                break
            found += piece
    except OSError as error:
        raise UsageError(f"sources: standard input can't be read: {error.strerror}") from None
    finally:
        loop.remove_reader(descriptor)
    return bytes(found)
