"""The parent of run boxes: it imports once, and forks a child for each box, which goes in there and is the box's only command.

It is confined like a box before it imports, but for two capabilities: its children take the uids of their boxes. It hears the server only,
which tells it nothing of a submission; a child is told of its own box alone. Until the import nothing but the standard library is used.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import json
import os
import random
import resource
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from sandbox.box_init import close_inherited, limit, reap
from sandbox.fork_init import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG
from sandbox.protocol.box_start import ENTERED, NAMESPACES, READY

PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 8, 22, 24
SECCOMP_MODE_FILTER, CAPABILITY_VERSION, INSTRUCTION_BYTES = 2, 0x20080522, 8
CAP_SETGID, CAP_SETUID = 6, 7
MESSAGE_BYTES, DESCRIPTOR_COUNT = 64 * 1024, 32


def main() -> int:
    """Run `fork_server SOCKET MODULE ARGUMENTS...`: call the module's `preload`, fork until the server hangs up, and in a child call its
    `main`, each with the arguments; a child has more, which its box adds."""
    path, name, *arguments = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(path)
        take_uid(int(link.recv(MESSAGE_BYTES)), libc)
        command = importlib.import_module(name)
        command.preload(arguments)
        reseed()  # what it imports: NumPy's generators come with their first use
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the kernel
        link.send(READY)
        while True:
            message, descriptors, _, _ = socket.recv_fds(link, MESSAGE_BYTES, DESCRIPTOR_COUNT)
            if not message:
                return 0
            if os.fork() == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
    arguments += enter(message, descriptors, libc)
    reseed()
    sys.argv[1:] = arguments
    return int(command.main(arguments))


def take_uid(uid: int, libc: ctypes.CDLL) -> None:
    """Give up root's uid, and all capabilities but those to take other uids."""
    first = os.getppid()
    checked(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keep capabilities")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    set_capabilities(1 << CAP_SETGID | 1 << CAP_SETUID, libc)
    # A change of uid clears it. Without it an import that hangs outlives its box, and a server that was killed.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != first:
        raise ProcessLookupError("the first process of the box ended before")


def set_capabilities(mask: int, libc: ctypes.CDLL) -> None:
    """Have these capabilities, the first 32 only, and none that a program could be executed with."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    checked(libc.capset(header, (ctypes.c_uint32 * 6)(mask, mask)), "set capabilities")


def checked(result: int, name: str) -> None:
    """Raise what libc reported."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def enter(message: bytes, descriptors: list[int], libc: ctypes.CDLL) -> list[str]:
    """Go into the box that the server describes; return the box's own arguments in its command, with all that limits it.

    descriptors: NAMESPACES, the box's output, where it reports that it entered, where the command's exit code is reported, and its cgroups.
    """
    namespaces, (output, entered, exit_pipe, *entrances) = descriptors[: len(NAMESPACES)], descriptors[len(NAMESPACES) :]
    try:
        box: dict[str, Any] = json.loads(message)
        os.setsid()
        for entrance in entrances:
            os.write(entrance, b"0")
        os.setgroups([])
        os.setresgid(box["uid"], box["uid"], box["uid"])
        os.setresuid(box["uid"], box["uid"], box["uid"])
        for namespace in namespaces[: box["namespace_count"]]:
            checked(libc.setns(namespace, 0), "join a namespace")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child = os.fork()
        if child:
            set_capabilities(0, libc)
            report(child, exit_pipe)
        confine(box, output, libc)
        os.write(entered, ENTERED)
        close_inherited()
        return list(box["arguments"])
    except Exception as error:  # noqa: BLE001  before any untrusted code: the box did not come up
        with contextlib.suppress(OSError):
            os.write(output, f"the fork did not enter its box: {error}\n".encode())
        os._exit(1)


def report(child: int, exit_pipe: int) -> NoReturn:
    """Wait for the command, and report its exit code; then for those that it made our children (CLONE_PARENT): until they are reaped the
    box's first process does not end."""
    code = reap(child)
    with contextlib.suppress(OSError):
        os.write(exit_pipe, str(code).encode())
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def confine(box: dict[str, Any], output: int, libc: ctypes.CDLL) -> None:
    """Give up all rights, and set what a box's command is started with."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    os.umask(0o022)
    os.chdir(os.environ.get("HOME", "/"))
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, copy in ((null, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, copy)
    for name, value in box["rlimits"].items():
        limit(getattr(resource, name), value)
    if box["drop_capabilities"]:
        capability = 0
        while libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
            capability += 1
        set_capabilities(0, libc)
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "allow no new privileges")
    checked(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "own /proc/self")
    if box["seccomp"]:
        program = base64.b64decode(box["seccomp"])
        code = ctypes.create_string_buffer(program, len(program))
        filter_ = struct.pack("HP", len(program) // INSTRUCTION_BYTES, ctypes.addressof(code))  # a `struct sock_fprog`
        checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0), "load the filter")


def reseed() -> None:
    """Draw the state of random generators anew: all children inherit the same."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


if __name__ == "__main__":
    raise SystemExit(main())
