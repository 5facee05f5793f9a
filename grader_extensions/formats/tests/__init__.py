"""Tests of these formats."""
