"""The public API as Python: messages of grader.v1 to and from our types, errors to and from statuses, and the client.

It starts nothing and decides nothing.
"""
