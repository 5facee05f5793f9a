"""How fast the emulated device is: matmuls of 512^3 against the same loops written for the CPU, in CPU time of one process; and what it
costs to run threads in a drawn order, as verified runs do, against their usual order.

`python -m tools.bench_emulation`. The loops on the CPU are compiled with the flags of the device.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sandbox.compilers import emulation

SOURCE = Path(__file__).with_name("emulation_speed.cu")


def main() -> int:
    """Build, run with and without second bodies, and print a line for each."""
    with tempfile.TemporaryDirectory() as directory:
        program = _built(Path(directory))
        sys.stdout.write("kernel  threads of a block run as  emulated  CPU loops  ratio  in a drawn order  ratio\n")
        for setting, name in (("1", "loops"), ("0", "fibers")):
            environment = {**os.environ, "GRADER_EMULATED_BLOCK_LOOPS": setting}
            done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.stderr.write(f"the program ended with {done.returncode}: its results differ, or it crashed\n")
                return 1
            for line in done.stdout.splitlines():
                kernel, emulated, drawn, cpu = line.split()
                sys.stdout.write(f"{kernel:6}  {name:25}  {emulated:>5} ms  {cpu:>6} ms  {float(emulated) / float(cpu):5.2f}")
                sys.stdout.write(f"  {drawn:>13} ms  {float(drawn) / float(emulated):5.2f}\n")
    return 0


def _built(place: Path) -> Path:
    translated, program = place / SOURCE.name, place / "program"
    translated.write_text(emulation.translate(SOURCE.read_text("utf-8"), SOURCE.name), "utf-8")
    includes = [word for directory in emulation.include_dirs() for word in ("-isystem", directory)]
    subprocess.run(["g++", *emulation.compile_flags(), *includes, str(translated), "-o", str(program)], check=True)
    return program


if __name__ == "__main__":
    raise SystemExit(main())
