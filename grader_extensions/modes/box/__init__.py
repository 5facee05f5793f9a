"""The part of the modes that runs in boxes. Untrusted: what it leaves is a claim."""
