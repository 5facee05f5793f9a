"""The server side: decides, remembers, answers.  Never imports torch."""
