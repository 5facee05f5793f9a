"""What a box prints: its bounded output stream."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
ARRIVAL_GRAIN_NS = 1_000_000


class OutputReader:
    """Reads a descriptor that untrusted code writes to: keeps the head, counts the rest, and calls `on_full` at the cap.

    Plain reads: descriptors that the box tries to pass along a socket are dropped by the kernel.
    """

    def __init__(self, descriptor: int, *, cap_bytes: int, on_full: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._cap_bytes = cap_bytes
        self._on_full = on_full
        self._head = bytearray()
        self._count = 0
        self.arrivals: list[tuple[int, int]] = []  # for `BoxExit`, a millisecond apart at least
        self.ended = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read_once)

    @property
    def head(self) -> bytes:
        """The first 64 KiB."""
        return bytes(self._head)

    def drain(self) -> None:
        """Take what is already there, for a box that has ended; bounded by the cap."""
        while not self.ended.is_set() and self._read_once():
            pass

    def close(self) -> None:
        """Stop reading; once. Afterwards the descriptor may be closed, and its number may be another's."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._descriptor)
            self.ended.set()

    def _read_once(self) -> bool:
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        now_ns = time.monotonic_ns()
        if not self.arrivals or now_ns - self.arrivals[-1][1] > ARRIVAL_GRAIN_NS:
            self.arrivals.append((len(self._head), now_ns))
        self._head += chunk[: HEAD_BYTES - len(self._head)]
        self._count += len(chunk)
        if self._count >= self._cap_bytes:
            self.close()
            self._on_full()
        return True
