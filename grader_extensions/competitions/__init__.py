"""Competitions: files, boards, rejudges, and what organisers do."""
