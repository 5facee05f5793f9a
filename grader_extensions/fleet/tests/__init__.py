"""Tests of workers on other hosts."""
