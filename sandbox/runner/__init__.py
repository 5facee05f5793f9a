"""Untrusted, in a run box.  Loads the artifact and launches it when the gate asks.  Must not know references, expected values or times."""
