"""The CPU as a CUDA device, in boxes: CUDA C++ rewritten for g++, headers that stand for CUDA's, and torch, Triton and Numba on it.

Untrusted, as all that runs in a box. The device's memory, clock and faults are the judge's: `sandbox/devices/emulated.py`.
"""
