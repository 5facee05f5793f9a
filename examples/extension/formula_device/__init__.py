"""A device of its own; `toolchain.py` is all of it."""
