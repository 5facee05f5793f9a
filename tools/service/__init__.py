"""Tries the service, not the grading: what is lost when things die (`chaos`), and how long a call takes (`load`)."""
