"""A reference that torch.compile compiles in every call is no baseline."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import time, torch
from sandbox.judge.baseline_process import CompiledReference

def of_a_new_number(inputs):
    number = time.thread_time()
    return [inputs[0] + number if len(inputs[0]) > 2 else inputs[0]]

def outcomes(reference, sizes):
    compiled = CompiledReference(torch.compile(reference, dynamic=False, backend="eager"))
    for size in sizes:
        try:
            compiled([torch.ones(size)])
            yield "ran"
        except RuntimeError as error:
            yield "refused" if "anew in every call" in str(error) else str(error)

print(*outcomes(of_a_new_number, [4] * 5))
print(*outcomes(of_a_new_number, [4, 4, 4, 2, 2, 2, 2, 4, 2]))
print(*outcomes(lambda inputs: [2 * inputs[0]], [4] * 5))
"""


@pytest.mark.slow
def test_a_reference_that_is_compiled_in_every_call_is_refused() -> None:
    """From its third call on, at those shapes alone. The control: one that depends on its inputs runs at every call."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    assert ended.stdout.splitlines() == [
        "ran ran refused refused refused",
        "ran ran refused ran ran ran ran refused ran",
        "ran ran ran ran ran",
    ]
