"""Checks that a problem tells right kernels from wrong ones: mutants of its reference have to fail.  Must not judge submissions."""
