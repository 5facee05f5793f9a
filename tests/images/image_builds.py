"""Builds the images of the Dockerfile where no registry of images is reached: the base is made of Debian's packages, and pip installs
from a directory that is served on loopback."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from deploy.requirements import requirements

ROOT = Path(__file__).parents[2]
SUITE, PYTHON = "bookworm", "3.11"
BASE = f"grader-test-base:{SUITE}"
STEP_S = 900


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command; return all that it printed. Raises AssertionError with the end of that if the command fails."""
    process = subprocess.run(
        list(map(str, words)), cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=STEP_S
    )
    assert process.returncode == 0, f"{words[0]} {words[1]} ended with {process.returncode}:\n{process.stdout[-4000:]}"
    return process.stdout


def import_base() -> None:
    """Make the base image from Debian's packages, unless the engine has it."""
    if subprocess.run(["docker", "image", "inspect", BASE], check=False, capture_output=True, timeout=STEP_S).returncode == 0:
        return
    with tempfile.TemporaryDirectory(prefix="grader-base-", dir="/var/tmp") as place:
        root = Path(place) / "root"
        run("debootstrap", "--variant=minbase", SUITE, root)
        packed = subprocess.Popen(["tar", "-C", str(root), "--one-file-system", "-c", "."], stdout=subprocess.PIPE)
        try:
            subprocess.run(["docker", "import", "-", BASE], stdin=packed.stdout, check=True, capture_output=True, timeout=STEP_S)
        finally:
            assert packed.stdout is not None
            packed.stdout.close()
            packed.wait(STEP_S)


def wheels(cache: Path) -> Path:
    """Return a directory with the wheels of all that the images install, fetched with this machine's settings of pip."""
    wanted = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    text = "\n".join([*wanted, (ROOT / "constraints.txt").read_text()])
    directory = cache / f"wheels-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("wheels-*"):
            shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="wheels-", dir=cache) as place:
            listed = Path(place) / "wanted.txt"
            listed.write_text("\n".join(wanted))
            fetched = Path(place) / "wheels"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--python-version", PYTHON]
            run(*pip, "-c", "constraints.txt", "-r", listed, "-d", fetched)
            fetched.rename(directory)
    return directory


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serve a directory on loopback; yields its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def build(context: Path, target: str, tag: str, links: str) -> str:
    """Build a target of the Dockerfile in `context`; returns what the builder printed."""
    arguments = {"BASE": BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links}
    words = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    return run("docker", "build", "--network", "host", *words, "--target", target, "--tag", tag, context)


def copy_of_the_sources(place: Path) -> Path:
    """Return a copy of what git knows of this directory, as a build context that a test may change."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, place / name
        if source.is_file() and not name.startswith(("tests/", "docs/", "kernels_examples/")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return place


def cache_directory() -> Path:
    """Return where runs leave what later ones need; see .ci/environment."""
    return Path(os.environ.get("GRADER_CI_CACHE") or "/var/cache/grader-ci")
