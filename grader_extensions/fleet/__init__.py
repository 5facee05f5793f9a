"""`grader-worker`: grades on its own host what a server elsewhere gives it."""
