"""The problem formats flashinfer and robust_kbench: for each the server's half, and the judge's half in NAME_reference.py."""
