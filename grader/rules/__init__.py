"""Rules of the service as pure functions: quotas, keys, boards, rejudges and what is withheld. No clock, no files, no database."""
