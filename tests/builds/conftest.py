"""Fixtures that tests of builds share."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.languages import implementation
from tests.python_builds import Builder, build_here

ROOT = Path(__file__).parents[2]
# Every artifact is loaded in a process of its own, forked after torch was imported.
LOADER = f"""
import dataclasses, json, os, sys, tempfile
sys.path.insert(0, {str(ROOT)!r})
from sandbox.protocol import wire
from sandbox.launch.loop import LaunchRefused
from sandbox.languages import python
from sandbox.protocol.gate import Call, Operation, Slot
import torch
class Arena:
    def __init__(self): self.data = {{0: torch.tensor([1., 2., 3.]), 12: torch.tensor([10., 20., 30.]), 24: torch.full((3,), float("nan"))}}
    def tensor(self, offset, dtype, shape, strides=()): return self.data[offset].view(shape)
def load(artifact, state, given):
    one = lambda name: wire.TensorSpec(name=name, dtype="float32", shape=(3,))
    tensors, shapes = dict(inputs=(one("a"), one("b")), outputs=(one("c"),)), given.pop("shapes", [[3]] * 3)
    job = wire.RunnerJob(device_kind="emulated", language="python", entry="solve", arena_bytes=64, **tensors)
    given["templates"] = tuple(given.get("templates", ()))
    job = dataclasses.replace(job, **{{**given, "convention": wire.Convention(given.get("convention", job.convention))}})
    state_fd = os.memfd_create("state")
    os.write(state_fd, bytes.fromhex(state))
    arena = Arena()
    try:
        loaded = python.load(os.open(artifact, os.O_RDONLY), state_fd, job, arena)
        a, b, c = (Slot(offset=12 * number, shape=tuple(shape)) for number, shape in enumerate(shapes))
        bound = loaded.bind(Call(operation=Operation.CALL, inputs=(a, b), outputs=(c,)))
        bound.launch()
        result = bound.launch()
        if bound.finish: bound.finish(result)
        return arena.data[24].tolist()
    except LaunchRefused as refused:
        return [refused.status.name, refused.message]
    except Exception as error:
        return [type(error).__name__, str(error)]
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        os.environ["TMPDIR"], tempfile.tempdir = asked["place"], None
        answer = json.dumps(load(asked["artifact"], asked["state"], asked["job"]))
        with open(asked["answer"], "w") as file:
            file.write(answer)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


@pytest.fixture
def built(tmp_path, capfd):
    """Build CUDA sources in this process, each time in a directory of its own."""
    places = (tmp_path / str(number) for number in itertools.count())
    return lambda files, find=implementation, **fields: build_here(next(places), capfd, files, find, **fields)


@pytest.fixture
def builder(tmp_path, capfd):
    """Build a Python module."""
    return Builder(tmp_path, capfd)


@pytest.fixture(scope="module")
def loader(tmp_path_factory):
    """A process that loads artifacts as a runner does, where no program is to be found."""
    log = tmp_path_factory.mktemp("loader") / "said"
    environment = {"PATH": "/nonexistent", "CXX": "/nonexistent/g++"}
    command = [sys.executable, "-c", LOADER]
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):

        def load(**request):
            process.stdin.write(f"{json.dumps(request)}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "0\n", log.read_text()

        yield load
        process.stdin.close()
        assert process.wait(timeout=300) == 0


@pytest.fixture
def loaded(tmp_path, loader):
    """Load an artifact, and call it with [1, 2, 3] and [10, 20, 30]."""

    def loaded(artifact: bytes, state: bytes = b"", **job: object) -> list[object]:
        path, answer = tmp_path / "loaded", tmp_path / "answer"
        path.write_bytes(artifact)
        loader(artifact=str(path), state=state.hex(), job=job, place=str(tmp_path), answer=str(answer))
        return json.loads(answer.read_text())

    return loaded
