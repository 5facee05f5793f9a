"""Pages for people at the web port, off unless `--web` asks for it: problems, submissions, boards, signing in and submitting."""
