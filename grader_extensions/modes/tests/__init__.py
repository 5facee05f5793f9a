"""Tests of the modes profile, sanitize and sweep."""
