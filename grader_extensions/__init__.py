"""Extensions of grader: packages that the core does not know, and finds by their entry points."""
