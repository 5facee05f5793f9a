"""Untrusted, in a build box.  Runs the compilers on a submission and leaves one file.  Must not judge, and reaches no judge."""
