"""Lets Ray place workers and keep them: one detached actor for each lane, whose only child is a whole `grader-worker`.

Ray carries no lease, no fact and no secret. A worker calls the server itself, with a certificate that lies on its host; Ray decides where
it runs and starts it again elsewhere when a node is lost. No process that holds the ledger imports Ray: an object or an exception that
comes out of an actor runs pickled code where it is read. So this runs next to Ray's head, as another user than the server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import grpc

from grader import devices
from grader.errors import SettingsInvalid

MISUSED = 2
NAMESPACE, PREFIX = "grader", "grader-lane-"
LANE_LIMIT = 1024
LANE_BUILDERS = 2
TYPE_LABEL = "ray.io/accelerator-type"
RESTART_S, RESTART_MOST_S = 1.0, 30.0
WELL_S = 60.0  # a worker that lived so long is started again at once
CALL_S = 60.0
ANSWER_S = 15.0  # so long Ray's head may take to answer
# What Ray puts into the environment of an actor, and a worker must not have: its token, and what it makes of GPUs and threads.
NOT_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


def lane_count(text: str) -> tuple[str, int]:
    """Read KIND=COUNT, of which the kind is `emulated`, or a type of GPU as Ray's label has it, such as H200; SettingsInvalid."""
    kind, equals, count = text.partition("=")
    if not equals or not kind or not count.isdecimal() or not 1 <= int(count) <= LANE_LIMIT:
        raise SettingsInvalid("lanes", f"{text!r} is not KIND=COUNT, such as H200=4 or emulated=2")
    return kind, int(count)


class WorkerActor:
    """All that Ray runs: keeps one worker alive, and lets it drain. Its child sees nothing of Ray."""

    def __init__(self, name: str, prefix: Sequence[str], words: Sequence[str], *, kind: str) -> None:
        self.restart_count = 0
        worker = (sys.executable, "-m", "grader_extensions.fleet.main")  # of this node's own Python
        # Each worker of a node would count all of its cores as its own.
        builders = ("--builders", str(LANE_BUILDERS))
        self._command = [*prefix, *worker, *builders, *words, "--name", name, "--until-stdin-closes"]
        device, index = kind, os.environ.get("CUDA_VISIBLE_DEVICES", "")  # the GPU that Ray has given to this actor, in NVML's order
        if kind != devices.EMULATED:
            if not index.isdecimal():
                raise RuntimeError(f"Ray gave this actor the GPUs {index!r}, and a lane needs one by its index")
            device = f"{devices.CUDA}:{index}"
        self._command += ["--device", device]
        self._child: asyncio.subprocess.Process | None = None
        self._leaving = asyncio.Event()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def standing(self) -> dict[str, Any]:
        """The worker's process, and how often it was started again."""
        child = self._child
        return {"pid": child.pid if child and child.returncode is None else None, "restart_count": self.restart_count}

    async def drain(self) -> None:
        """Let the worker end what it has, and start no other."""
        self._leaving.set()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
        await asyncio.wait([self._keeping])

    async def _keep(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), RESTART_S
        while not self._leaving.is_set():
            begun_s = loop.time()
            # Its input is a pipe of ours: where this process is killed, the worker drains and ends.
            self._child = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, env=clean_environment(os.environ), start_new_session=True
            )
            await self._child.wait()
            if self._leaving.is_set():
                return
            self.restart_count += 1
            pause_s = RESTART_S if loop.time() - begun_s > WELL_S else min(2 * pause_s, RESTART_MOST_S)
            await asyncio.sleep(pause_s)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an actor's environment for its worker: Ray's token and addresses go no further."""
    return {name: value for name, value in environment.items() if not name.startswith("RAY_") and name not in NOT_PASSED_ON}


def options(kind: str, number: int) -> dict[str, Any]:
    """Return Ray's options for a lane. A GPU's type is a label of its node. Nothing secret: all of it is shown by Ray's state API."""
    fields: dict[str, Any] = {
        "name": f"{PREFIX}{kind}-{number}",
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,  # to place again changes nothing
        "max_restarts": -1,  # on another node where this one is lost; no grading is run again, for Ray has none
        "max_task_retries": 0,
    }
    if kind == devices.EMULATED:  # a core
        return {**fields, "num_cpus": 1}
    return {**fields, "num_cpus": 0, "num_gpus": 1, "label_selector": {TYPE_LABEL: kind}}


def place(address: str, lanes: Sequence[tuple[str, int]], prefix: Sequence[str], words: Sequence[str]) -> list[str]:
    """See that there are so many lanes; the names of their actors. Lanes that find no node wait for one, and are what an autoscaler sees.
    words: the options of each `grader-worker`; prefix: what comes before it, such as sudo."""
    names: list[str] = []
    with _session(address) as ray:
        existing = _names(ray)
        for kind, count in lanes:
            for number in numbers(kind, count, existing):
                wanted = options(kind, number)
                name = str(wanted["name"]).removeprefix(PREFIX).lower()
                ray.remote(WorkerActor).options(**wanted).remote(name, list(prefix), list(words), kind=kind)
                names.append(str(wanted["name"]))
    return names


def numbers(kind: str, count: int, existing: Collection[str]) -> list[int]:
    """Those of the lanes of this kind that there are, and the lowest that are free for those that are missing."""
    start = f"{PREFIX}{kind}-"
    used = {int(name.removeprefix(start)) for name in existing if name.startswith(start) and name.removeprefix(start).isdecimal()}
    free = (number for number in itertools.count() if number not in used)
    return sorted(used | set(itertools.islice(free, max(0, count - len(used)))))


def listed(address: str) -> dict[str, dict[str, Any]]:
    """The lanes that are placed, and how each is; nothing of one that waits for a node, or whose node was lost a moment ago."""
    standings: dict[str, dict[str, Any]] = {}
    with _session(address) as ray:
        answers = {name: ray.get_actor(name, namespace=NAMESPACE).standing.remote() for name in sorted(_names(ray))}
        ready, _ = ray.wait(list(answers.values()), num_returns=len(answers), timeout=5.0) if answers else ([], [])
        for name, answer in answers.items():
            standings[name] = {}
            if answer in ready:
                with suppress(ray.exceptions.RayError):
                    standings[name] = ray.get(answer)
    return standings


def remove(address: str, names: Sequence[str]) -> list[str]:
    """Drain these lanes and end their actors; of those that there are."""
    removed = []
    with _session(address) as ray:
        for name in names:
            with suppress(ValueError):  # there is none of this name
                actor = ray.get_actor(name, namespace=NAMESPACE)
                with suppress(ray.exceptions.RayError):  # also where it takes too long
                    ray.get(actor.drain.remote(), timeout=CALL_S)
                ray.kill(actor)
                removed.append(name)
    return removed


def _names(ray: Any) -> list[str]:
    return [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True) if actor["name"].startswith(PREFIX)]


@contextmanager
def _session(address: str, answer_s: float = ANSWER_S) -> Iterator[Any]:
    """Ray's package, connected; SettingsInvalid where it can't be."""
    try:
        import ray
        from ray._private.services import canonicalize_bootstrap_address
    except ImportError:
        raise SettingsInvalid("ray", "Ray is not installed; pip install '.[ray]' ./grader_extensions in a clone") from None
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # else print is another function from then on
    try:
        _, is_client, target = address.partition("://")
        wait_for_answer(target if is_client else canonicalize_bootstrap_address(address), answer_s)
        with _signals_kept():
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingsInvalid("ray", f"no Ray cluster answers at {address!r}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def wait_for_answer(target: str | None, answer_s: float) -> None:
    """Wait until a gRPC server answers there; ConnectionError. ray.init itself tries for five minutes, and has no option for less. None: no
    address, where ray.init starts what it connects to."""
    if target is None:
        return
    if os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true"):  # without its certificates no more than the connection can be tried
        host, _, port = target.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=answer_s).close()
        return
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=answer_s)
        except grpc.FutureTimeoutError:
            raise ConnectionError(f"nothing answered at {target} within {answer_s:g} s") from None


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep what SIGTERM does in this process: ray.init replaces its handler, also where no cluster answers."""
    if threading.current_thread() is not threading.main_thread():  # ray.init leaves the signals alone there
        yield
        return
    former = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def main(arguments: Sequence[str]) -> int:
    """Place, list or remove lanes, and print what became of each; the exit code."""
    words = parser().parse_args(arguments)
    lanes: dict[str, dict[str, Any]]
    try:
        with redirect_stdout(sys.stderr):  # Ray prints to it what becomes of nodes
            if words.list:
                lanes = listed(words.ray)
            elif words.remove:
                removed = remove(words.ray, words.remove)
                lanes = {name: {"removed": name in removed} for name in words.remove}
            elif words.lanes and words.join:
                joining = ["--join", words.join, *(["--certificate", words.certificate] if words.certificate else []), *words.options]
                counts = [lane_count(text) for text in words.lanes]
                lanes = {name: {"placed": True} for name in place(words.ray, counts, shlex.split(words.prefix), joining)}
            else:
                raise SettingsInvalid("lanes", "name the lanes and the server, such as --lanes H200=4 --join SERVER:50552")
    except SettingsInvalid as error:
        sys.stderr.write(f"grader-worker place: {error}\n")
        return MISUSED
    if words.json:
        sys.stdout.write(json.dumps(lanes) + "\n")
    else:
        for name, facts in lanes.items():
            shown = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in facts.items()) or "waits for a node"
            sys.stdout.write(f"{name}  {shown}\n")
    return MISUSED if any(facts.get("removed") is False for facts in lanes.values()) else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="grader-worker place",
        description="Has Ray run one worker for each lane and start it again where a node is lost. To place again changes nothing.",
        epilog="Ray is an extra: pip install '.[ray]' ./grader_extensions in a clone. The server needs none. See docs/operation.md first.",
    )
    add: Any = command.add_argument
    add("--ray", metavar="ADDRESS", default="auto", help="the cluster, as ray.init takes it (auto: the one on this host)")
    text = "a type of GPU as Ray's label has it, or emulated: H200=4 emulated=2"
    add("--lanes", metavar="KIND=COUNT", nargs="+", default=[], help=text)
    add("--join", metavar="ADDRESS", help="the server's --fleet-listen, as the nodes reach it")
    add("--certificate", metavar="FILE", help="the worker's file, at the same path on every node")
    add("--prefix", metavar="WORDS", default="", help="before the worker's command: 'sudo -n -u grader', so that it is not Ray's user")
    add("--list", action="store_true", help="show the lanes that are placed")
    add("--remove", metavar="NAME", nargs="+", default=[], help="drain these lanes, and end them")
    add("--json", action="store_true", help="print JSON")
    add("options", nargs="*", metavar="-- OPTIONS", help="of grader-worker, for every worker")
    return command
