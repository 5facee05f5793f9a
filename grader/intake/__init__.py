"""Checks of a submission before it is stored: its fields, its files, its language, its entry point. Builds and stores nothing."""
