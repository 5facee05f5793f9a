"""Tests of the check of problems."""
