"""Commands of `grader-cli`.  Imports no server."""
