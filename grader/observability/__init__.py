"""Logs, metrics and traces of a server. It watches and never decides; nothing here sees a source or names a user in a label."""
