"""Problem formats, a file each: the server side parses without executing.

A format promises: `load(path)` reads a problem from a file or directory, executes nothing, and raises `ProblemInvalid` naming the
file, the key and the remedy. The judge's half is the file of the same name in `sandbox/judge/references/`.
"""

from __future__ import annotations

from grader.formats import native

FORMATS = {native.NAME: native}
