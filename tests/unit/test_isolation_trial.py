"""A box whose copy of our code is of another version is found before anything is graded in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from grader.isolation import Box, BoxExit, BoxSpec
from grader.isolation.probe import outdated
from sandbox.protocol.version import VERSION
from sandbox.protocol.wire import BoxCause
from tests import fakes


class Printing(fakes.FakeBoxes):
    """Boxes that print one text and end."""

    def __init__(self, output: bytes, exit_code: int) -> None:
        super().__init__()
        self._ended = BoxExit(cause=BoxCause.EXITED, exit_code=exit_code, output=output)

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        assert spec.argv[-1] == "{lib}"
        yield fakes.EndedBox(self._ended)


@pytest.mark.parametrize(
    ("output", "exit_code", "complaint"),
    [
        (VERSION + "\n", 0, None),
        ("0123456789abcdef\n", 0, "speaks protocol '0123456789abcdef'"),
        ("ModuleNotFoundError: No module named 'sandbox.protocol.version'", 1, "does not know its protocol"),
    ],
)
async def test_an_image_of_another_version_is_named(output: str, exit_code: int, complaint: str | None) -> None:
    message = await outdated(Printing(output.encode(), exit_code))
    if complaint is None:
        assert message is None
    else:
        assert message is not None and complaint in message and "build the image from this version" in message
