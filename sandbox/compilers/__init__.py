"""Untrusted.  Compilers and their headers: nvcc, gcc, ptxas, the emulated device's rewriting and the fast headers.

Must not know a language, and loads nothing that it builds.
"""
