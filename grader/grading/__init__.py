"""From a lease to facts: build, run in fresh processes, judge. Boxes and the database come through the seams in `attempt.py`."""
