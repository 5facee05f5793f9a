"""Tests of the headers for torch extensions."""
