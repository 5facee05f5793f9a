"""Words of a box that comes up: between its first process and the server, and between a parent of boxes and the server."""

from __future__ import annotations

MADE, ENTERED = b"m", b"e"  # the box is made, and waits for a forked command; its command is in it
READY = b"r"  # a parent has imported
FORK_SOCKET = "fork.sock"  # of a parent, in its {link}
# A fork enters these in this order; the first owns the others but the last.
NAMESPACES = ("owner", "cgroup", "ipc", "uts", "net", "pid", "mnt", "user")
