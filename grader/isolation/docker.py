"""Boxes as containers of a Docker engine: the isolation for production.

The engine's client blocks, so it lives in threads of its own, each call with a deadline; the event loop never waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import secrets
import socket
import tarfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import docker
import docker.errors
import requests.exceptions

from grader.isolation import Availability, Box, BoxSpec, IsolationBroken, cgroups, finish_despite_cancel, gpu, launch, probe, processes
from grader.isolation.cgroups import Counters
from grader.isolation.directories import link_directory, slot_uid, sweep_runtime
from grader.isolation.fingerprint import HostFingerprint
from grader.isolation.settings import BoxSettings, Protections
from grader.isolation.supervision import SupervisedBox, live
from grader.isolation.toolchain import Toolchain, host_toolchain, image_toolchain, profile, write_own_etc
from sandbox.protocol import box_modules
from sandbox.protocol.box_files import socket_address
from sandbox.protocol.wire import BoxCause

DEFAULT_HOST = "unix:///var/run/docker.sock"
EMPTY_REPOSITORY, EMPTY_TAG = "grader-box", "empty"
CALL_TIMEOUT_S = 60
CHECK_TIMEOUT_S = 20.0
LIVE_BOX_COUNT = 128
RECURSIVE_READONLY_SINCE = 25
ENGINE_FAULTS = (docker.errors.DockerException, requests.exceptions.RequestException)
WAIT_GRACE_S = 120
IDLE_LIMIT_S = 24 * 3600  # no box waits for so long for what it is to do
SAMPLE_S = 0.25
REMOVE_ATTEMPTS = 3

Result = TypeVar("Result")


class Engine:
    """The engine's client, in threads."""

    def __init__(self, host: str | None) -> None:
        self.host = host or DEFAULT_HOST
        self.local = self.host.startswith("unix://")  # its processes are this host's
        self._threads = ThreadPoolExecutor(LIVE_BOX_COUNT, thread_name_prefix="docker")
        self._client: docker.APIClient | None = None
        self._connecting = asyncio.Lock()

    async def call(self, work: Callable[[docker.APIClient], Result]) -> Result:
        """Do `work` with the client in a thread; it runs to its end, so what it makes is never lost."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._in_thread(self._connect)
        client = self._client
        return await finish_despite_cancel(self._in_thread(lambda: work(client)))

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _connect(self) -> docker.APIClient:
        # The SDK keeps a pool of connections for each URL, and every container has its own URLs: without "close" they pile up
        # until the oldest pool is closed, perhaps under a call that has just been given it. Many pools, none with a connection.
        client = docker.APIClient(base_url=self.host, version="auto", timeout=CALL_TIMEOUT_S, num_pools=8 * LIVE_BOX_COUNT)
        client.headers["Connection"] = "close"
        return client

    async def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            await self._in_thread(self._client.close)
        self._threads.shutdown(wait=False)


class StdioSocket:
    """A listening socket in a directory of ours; takes one connection, the box's first process's, and is gone."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection: socket.socket | None = None
        try:
            with socket_address(str(self._path)) as address:  # state directories lie deep
                self._listener.bind(address)
        except BaseException:
            self._listener.close()
            raise
        self._path.chmod(0o666)
        self._listener.listen(1)
        self._listener.setblocking(False)

    async def accept(self) -> socket.socket:
        """Take the first connection and close the door."""
        self.connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._close_listener()
        return self.connection

    def close(self) -> None:
        """Close whatever is open."""
        self._close_listener()
        if self.connection is not None:
            self.connection.close()

    def _close_listener(self) -> None:
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


class DockerBox(SupervisedBox):
    """A container. name, config: it is created of; stdio: where its first process connects to print.

    It is removed by its name: a start that is cancelled while the engine creates it never hears the id."""

    def __init__(
        self, engine: Engine, name: str, config: dict[str, Any], spec: BoxSpec, uid: int, stdio: StdioSocket, protections: Protections
    ) -> None:
        super().__init__(spec, uid, watch_memory=protections.memory_limit and engine.local)
        self._engine, self._name, self._config, self._stdio = engine, name, config, stdio
        self._directories: tuple[Path, ...] = ()
        self._first_pid = -1
        self._code: int | None = None
        self._removed = False

    async def start(self) -> None:
        try:
            await self._engine.call(
                lambda client: client.create_container_from_config(self._config, self._name)  # type: ignore[no-untyped-call]
            )
            await self._engine.call(lambda client: client.start(self._name))
        except ENGINE_FAULTS as error:
            raise IsolationBroken(f"the engine does not start the box: {error}") from error
        self.begin(self._wall_s)

    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return self._await_exit, self._converse, self._sample

    async def _stop(self) -> None:
        if self._cause is not BoxCause.EXITED:
            await self.remove()

    async def _clear(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._stdio.close()
        await self.remove()

    async def remove(self) -> None:
        """Kill and remove the container; every process of its pid namespace dies with it."""
        if self._removed:
            return
        for attempt in range(REMOVE_ATTEMPTS):
            try:
                with contextlib.suppress(docker.errors.NotFound):
                    await self._engine.call(lambda client: client.remove_container(self._name, force=True, v=True))
                break
            except (docker.errors.APIError, requests.exceptions.RequestException) as error:
                if attempt == REMOVE_ATTEMPTS - 1:
                    raise IsolationBroken(f"the engine does not remove box {self._name}: {error}") from error
        self._removed = True

    async def _await_exit(self) -> None:
        timeout_s = math.ceil(self._spec.limits.wall_s) + IDLE_LIMIT_S + WAIT_GRACE_S  # `begin` may have been late
        try:
            answer = await self._engine.call(lambda client: client.wait(self._name, timeout=timeout_s))
        except docker.errors.NotFound:
            return  # removed by us meanwhile
        self._code = int(answer["StatusCode"])
        self.end(BoxCause.EXITED)

    async def _converse(self) -> None:
        connection = await self._stdio.accept()
        self._read(connection.fileno())
        assert self._reader is not None
        await self._reader.ended.wait()
        if self._cause is None:
            self._look()  # the first process waits for us to hang up, so the counters are still there
            connection.close()

    async def _sample(self) -> None:
        if not self._engine.local:
            return
        try:
            state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self._name))
        except docker.errors.NotFound:
            return  # removed by us meanwhile
        self._first_pid = int(state["State"]["Pid"]) or -1
        directories = cgroups.directories_of(self._first_pid)
        self._directories = tuple(directory for directory in directories if str(state["Id"]) in str(directory))
        while True:
            self._look()
            await asyncio.sleep(SAMPLE_S)

    def _members(self) -> set[int]:
        return processes.descendants(self._first_pid, processes.table())

    def _look(self) -> None:
        self._counters = self._counters.merged(cgroups.read_counters(self._directories))

    async def _settle(self) -> int | None:
        if self._reader is None and self._cause is not BoxCause.KILLED:
            raise IsolationBroken("a box's first process never reported; is `python3` (3.11 or later) in the box root?")
        self._drain()
        if self._cause is BoxCause.EXITED:
            state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self._name))
            if state["State"].get("OOMKilled"):
                self._counters = self._counters.merged(Counters(oom_kills=1))
        return self._code


class DockerIsolation:
    """Makes boxes as containers."""

    NAME = "docker"
    SAFE = True

    def __init__(
        self, settings: BoxSettings, protections: Protections | None = None, find_driver: Callable[[int], gpu.DriverFiles] = gpu.find_driver
    ) -> None:
        self._settings = settings
        self._protections = protections or Protections()
        self._find_driver = find_driver
        self._engine = Engine(settings.docker_host)
        self.close = self._engine.close  # no box may be live
        self._root: launch.ContainerRoot | None = None
        self._fingerprint = HostFingerprint()

    async def check(self) -> Availability:
        try:
            version = await asyncio.wait_for(self._engine.call(lambda client: client.version()), CHECK_TIMEOUT_S)
        except (*ENGINE_FAULTS, TimeoutError) as error:
            return Availability(usable=False, detail=f"no Docker engine answers at {self._engine.host} ({_first_line(error)}); start one")
        failure = await probe.failure(self)
        if failure is not None:
            return Availability(usable=False, detail=f"a container does not start: {failure}")
        if self._settings.image is not None and (failure := await probe.outdated(self)) is not None:
            return Availability(usable=False, detail=failure)
        number = str(version.get("Version", "?"))
        major = number.split(".")[0]
        warnings = []
        if major.isdigit() and int(major) < RECURSIVE_READONLY_SINCE and self._settings.image is None:
            warnings.append(f"engine {number} leaves mounts below the toolchain's directories writable; have none there, or use 25+")
        return Availability(usable=True, detail=f"engine {number}, box root {self._settings.box_root}", warnings=tuple(warnings))

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        root = await self._prepared()
        grant = gpu.NOTHING
        if spec.gpu is not None:
            if not self._engine.local:
                raise IsolationBroken(f"the engine at {self._engine.host} can't be given nodes: run the server on its host")
            driver = await asyncio.to_thread(self._find_driver, spec.gpu.minor)
            grant = gpu.plain(spec.gpu, driver, self._settings.memory_toolchain_dir)
        # One of its own for each start: an engine under load may not have forgotten the box before, which was replaced.
        name = f"grader-{self._settings.run_id}-{spec.box_id}-{secrets.token_hex(3)}"
        with link_directory(self._settings, spec) as link_dir, closing(StdioSocket(link_dir, launch.STDIO_NAME)) as stdio:
            config = launch.container(spec, root, self._settings, link_dir, self._protections, grant)
            uid = slot_uid(spec.slot, spec.purpose) if self._protections.own_uid else 0
            async with live(DockerBox(self._engine, name, config, spec, uid, stdio, self._protections)) as box:
                yield box

    async def fingerprint(self, *, fresh: bool = False) -> str:
        """The image, or the host's toolchain where a box is made of that."""
        if self._settings.image is None:
            return await self._fingerprint.current(fresh=fresh)
        return f"image {(await self._prepared()).image} {box_modules.variable()}"

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        self._settings, self._root = replace(self._settings, memory_toolchain_dir=memory_toolchain_dir), None
        self._fingerprint = HostFingerprint(digest=fingerprint)

    async def sweep(self) -> int:
        sweep_runtime(self._settings)
        containers = await self._engine.call(
            lambda client: client.containers(all=True, filters={"label": f"{launch.STATE_LABEL}={self._settings.state_id}"})
        )
        strangers = [box["Id"] for box in containers if box["Labels"].get(launch.SERVER_LABEL) != self._settings.run_id]
        for stranger in strangers:
            await self._engine.call(lambda client, box=stranger: client.remove_container(box, force=True, v=True))  # type: ignore[misc]
        return len(strangers)

    async def _prepared(self) -> launch.ContainerRoot:
        if (root := self._root) is None:
            settings = self._settings
            toolchain, named = await asyncio.to_thread(_make_toolchain, settings), settings.image
            try:
                # By its id: what was looked at once is what every box is made of, whatever the name means later.
                image = await self._engine.call(_empty_image if named is None else lambda client: _image_id(client, named))
            except ENGINE_FAULTS as error:
                problem = "cannot make an empty image" if named is None else f"has no image {named}; build it, or pull it"
                raise IsolationBroken(f"the engine {problem}: {_first_line(error)}") from error
            root = launch.ContainerRoot(toolchain=toolchain, image=image, seccomp_text=profile("seccomp.json").read_text())
            if settings is self._settings:  # no copy was adopted meanwhile
                self._root = root
        return root


def _make_toolchain(settings: BoxSettings) -> Toolchain:
    if settings.image is not None:
        return image_toolchain()
    write_own_etc(settings.etc_directory)
    return host_toolchain(settings.etc_directory, settings.hidden_paths, settings.memory_toolchain_dir)


def _image_id(client: docker.APIClient, name: str) -> str:
    return str(client.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]


def _empty_image(client: docker.APIClient) -> str:
    name = f"{EMPTY_REPOSITORY}:{EMPTY_TAG}"
    try:
        return _image_id(client, name)
    except docker.errors.ImageNotFound:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w"):
            pass
        client.import_image_from_data(archive.getvalue(), repository=EMPTY_REPOSITORY, tag=EMPTY_TAG)
        return _image_id(client, name)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
