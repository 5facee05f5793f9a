"""A file for each version, oldest first."""
