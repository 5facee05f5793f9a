"""Modes of submissions beyond test, benchmark and ranked: profile, sanitize and sweep."""
