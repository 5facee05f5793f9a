"""The problems and competitions of a server: read from their directories, checked, found by name.

It grades nothing and knows no database.
"""
