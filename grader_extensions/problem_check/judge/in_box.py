"""Runs `check.py` in a box: the job comes from a file and the findings go to a file.  Arguments: KIND JOB FINDINGS."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Check the problem in the job file."""
    kind, job, findings = sys.argv[1:]
    job_descriptor = os.open(job, os.O_RDONLY)
    findings_descriptor = os.open(findings, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.dup2(job_descriptor, 0)
    os.dup2(findings_descriptor, 1)
    os.close(job_descriptor)
    os.close(findings_descriptor)
    # Only here: importing torch takes seconds, and its output must not be among the findings.
    from grader_extensions.problem_check.judge import check

    sys.argv = [sys.argv[0], kind]
    check.main()


if __name__ == "__main__":
    main()
