"""Grades kernels for the tests: in this process (`grading.py`), or in one service for the whole test run (`service.py`, `client.py`)."""
