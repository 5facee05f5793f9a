"""Modes that look at a kernel and time nothing: profile and sanitize."""
