"""Grading as a call of Python: `grade`, `agrade` and `Problem`, over the client and the server that commands use.

A kernel's fault is a `Result`; every other end is an exception below `Unscored`, so that none can become a reward.
"""
