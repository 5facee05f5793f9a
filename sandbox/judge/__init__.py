"""The trusted, host side: verifies and measures, and says what it saw."""
