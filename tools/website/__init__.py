"""The web pages of a filled site: their weight, their times and their pictures."""
