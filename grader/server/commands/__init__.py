"""Commands of `grader-server` other than serving: a module a word, found by `grader/server/main.py`."""
