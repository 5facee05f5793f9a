"""What `grader-server` does beside serving: a module a word, found by `grader/server/main.py`."""
