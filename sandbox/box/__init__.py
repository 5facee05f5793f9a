"""The untrusted side: bound read-only into every box.  Imports neither sandbox.judge nor grader."""
