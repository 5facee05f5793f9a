"""A digest of everything of this host that can change what a build box makes of the same sources.

Files of the toolchain count by path, size and time of change, as in `make`; our own files that a box sees count by content and by
their place in it. Finds torch without importing it.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from grader.isolation import IsolationBroken
from grader.isolation.toolchain import cuda_home, library_binds, places_of, search_path
from sandbox.protocol import box_modules
from sandbox.protocol.toolkit import toolkit_packages

log = structlog.get_logger()

ASK_TIMEOUT_S = 30
WALK_COUNT = 3
SYSTEM_HEADERS = ("/usr/include", "/usr/local/include")
CUDA_TREES = ("bin", "nvvm", "include", "targets")
PACKAGES = ("ninja", "tree_sitter", "tree_sitter_cuda", "tvm_ffi")  # what takes part in a build, next to torch
SKIPPED = frozenset({"__pycache__", "tests"})  # no build reads these
MISSING = (-1, -1)
FRESH_S = 1.0  # so long what was looked at is not looked at again: that takes 5 ms of 1,600 directories, several times a submission


class HostFingerprint:
    """The fingerprint of the host's own toolchain: walked once, and again where a directory or a program of it has changed.

    A file that is edited in place, deep in a tree, is seen by the next server only. Packages are not installed so.
    digest: of the copy that boxes see, which does not change: nothing is walked.
    """

    def __init__(self, take: Callable[[ToolchainScan], None] | None = None, *, digest: str = "") -> None:
        self._take = take or take_host
        self._digest = digest
        self._watched: dict[str, tuple[int, int]] = {}
        self._walking = asyncio.Lock()
        self._begun_s = -math.inf

    async def current(self, *, fresh: bool = False) -> str:
        """The digest, as of now, or else as of at most FRESH_S ago."""
        async with self._walking:
            if fresh or time.monotonic() - self._begun_s > FRESH_S:
                begun_s = time.monotonic()
                await asyncio.to_thread(self._look)
                self._begun_s = begun_s
            return self._digest

    def _look(self) -> None:
        if not self._digest or any(_facts(path) != facts for path, facts in self._watched.items()):
            begun_ns = time.monotonic_ns()
            for _ in range(WALK_COUNT):
                scan = ToolchainScan()
                try:
                    self._take(scan)
                except FileNotFoundError:
                    continue  # a package is being replaced
                break
            else:
                raise IsolationBroken("the toolchain changes while it is looked at; wait until the installation of packages is over")
            self._digest, self._watched = scan.digest(), scan.watched
            duration_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
            log.info("toolchain_walked", digest=self._digest, file_count=scan.file_count, duration_ms=duration_ms)


class ToolchainScan:
    """Digest of the files of a toolchain. watched: directories and single files, with their facts from before they were read."""

    def __init__(self) -> None:
        self.watched: dict[str, tuple[int, int]] = {}
        self.file_count = 0
        self._hash = hashlib.sha256()

    def digest(self) -> str:
        """The digest of all that was taken."""
        return self._hash.hexdigest()

    def note(self, *words: object) -> None:
        """Take in a line of facts."""
        self._hash.update(repr(words).encode())

    def take_file(self, path: Path) -> None:
        """Take in a file by its facts; that it is missing is a fact too."""
        self.watched[str(path)] = facts = _facts(str(path))
        self.note(str(path), facts)
        self.file_count += 1

    def take_own(self, path: Path, name: str) -> None:
        """Take a file or tree of ours by content and by its name in a box, so that two clones have one fingerprint."""
        self.watched[str(path)] = _facts(str(path))
        if path.is_file():
            self.note(name, hashlib.sha256(path.read_bytes()).digest())
            self.file_count += 1
            return
        for entry in sorted(path.iterdir()):
            if entry.name not in SKIPPED:
                self.take_own(entry, f"{name}/{entry.name}")

    def take_tree(self, directory: str, *, deep: bool = True) -> None:
        """Take in the files in a directory, and below it if deep. What a link leads to counts; a directory behind one is not entered."""
        self.watched[directory] = _facts(directory)
        if self.watched[directory] == MISSING:
            return
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                self.file_count += 1
                self.note(entry.path, _facts(entry.path), str(Path(entry.path).readlink()) if entry.is_symlink() else "")
            elif deep and entry.name != "__pycache__":
                self.take_tree(entry.path)


def take_host(scan: ToolchainScan) -> None:
    """Take in the compilers, the headers and libraries that they read, Python, torch, and our own side of a box."""
    for tree in SYSTEM_HEADERS:
        scan.take_tree(tree)
    _take_gcc(scan)
    if (cuda := cuda_home()) is not None:
        scan.note("nvcc", compiler_output(str(cuda / "bin" / "nvcc"), "--version"))
        for name in CUDA_TREES:
            scan.take_tree(str(cuda.resolve() / name))
    for directory in (*toolkit_packages("include"), *toolkit_packages("lib")):
        scan.take_tree(str(directory))
    scan.note(sys.version)
    scan.take_file(Path(sys.executable).resolve())
    scan.take_tree(sysconfig.get_path("include"))
    for torch in places_of("torch"):
        scan.take_tree(str(torch / "include"))
        scan.take_tree(str(torch / "lib"), deep=False)
        scan.take_file(torch / "version.py")
    for package in (path for name in PACKAGES for path in places_of(name)):
        scan.take_tree(str(package))
    scan.take_file(Path(sys.executable).parent / "ninja")
    scan.note(box_modules.variable())
    for bind in library_binds():
        scan.take_own(bind.source, bind.target)


def _take_gcc(scan: ToolchainScan) -> None:
    """gcc's own directory, with cc1plus, collect2 and its headers; the assembler and the linker; the libraries that can be linked."""
    compiler = shutil.which("g++", path=search_path())
    if compiler is None:
        scan.note("no g++")
        return
    scan.note("g++", compiler_output(compiler, "--version"))
    scan.take_file(Path(compiler).resolve())
    for name in ("as", "ld"):
        program = shutil.which(compiler_output(compiler, f"-print-prog-name={name}").strip(), path=search_path())
        scan.take_file(Path(program or name).resolve())
    directories = dict(line.split(": ", 1) for line in compiler_output(compiler, "-print-search-dirs").splitlines() if ": " in line)
    if install := directories.get("install"):
        scan.take_tree(str(Path(install)))
    listed = directories.get("libraries", "").removeprefix("=").split(":")
    for directory in dict.fromkeys(str(Path(directory_name).resolve()) for directory_name in listed if directory_name):
        scan.take_tree(directory, deep=False)


def compiler_output(program: str, question: str) -> str:
    """Return the answer of a compiler of this host; an error's text is an answer too."""
    environment = {"PATH": search_path(), "LANG": "C.UTF-8"}
    answer = subprocess.run(
        [program, question], env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT_S, check=False
    )
    return (answer.stdout + answer.stderr).decode(errors="replace")


def _facts(path: str) -> tuple[int, int]:
    try:
        facts = os.stat(path)  # noqa: PTH116  twenty thousand times: no Path for each
    except OSError:
        return MISSING
    return facts.st_size, facts.st_mtime_ns
