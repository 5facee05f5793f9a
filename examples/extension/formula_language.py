"""The language `formula`: one line per output, such as `out0 = in0 + 2 * in1`.

The server imports this module for INFO. A box imports it to build and load a submission.
"""

from __future__ import annotations

import ast
from pathlib import Path

from sandbox.compilers.steps import BUILT, REJECTED, BuildAttempt
from sandbox.launch.loop import Bound, Loaded
from sandbox.protocol import wire
from sandbox.protocol.languages import LanguageInfo

INFO = LanguageInfo(name="formula", module="formula_language", suffixes=(".formula",), file_limit=1, needs_torch=True)


def build(job: wire.BuildJob, files: Path, place: Path, out_dir: Path) -> tuple[BuildAttempt, wire.BuildNote]:
    """Check the syntax. The artifact is the text."""
    text = (files / job.sources[0]).read_text()
    try:
        ast.parse(text)
    except SyntaxError as error:
        return BuildAttempt(code=REJECTED, log=f"{job.sources[0]}:{error.lineno}: error: {error.msg}\n"), wire.BuildNote()
    return BuildAttempt(code=BUILT, log="", artifact=text.encode()), wire.BuildNote()


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena) -> Loaded:
    """Return the function that places a call's arguments."""
    program = compile(Path(f"/proc/self/fd/{artifact_fd}").read_text(), "submission", "exec")

    def bind(call) -> Bound:
        inputs = {
            f"in{index}": arena.tensor(slot.offset, tensor.dtype, slot.shape) if slot.shape else slot.scalar
            for index, (slot, tensor) in enumerate(zip(call.inputs, job.inputs, strict=True))
        }
        outputs = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]

        def launch() -> None:
            names = dict(inputs)
            exec(program, names)
            for index, output in enumerate(outputs):
                output.copy_(names[f"out{index}"])

        return Bound(launch=launch)

    return Loaded(bind=bind, uses_torch=True)
