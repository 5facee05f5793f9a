"""The socket on which the server waits for a box's output.  Untrusted output never passes through the engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path


class StdioSocket:
    """A listening socket in a directory of ours; takes one connection, the box's first process's, and is gone."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection: socket.socket | None = None
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Through the descriptor: a socket's path may have 107 bytes at most, and state directories lie deep.
            self._listener.bind(f"/proc/self/fd/{descriptor}/{name}")
        except BaseException:
            self._listener.close()
            raise
        finally:
            os.close(descriptor)
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
