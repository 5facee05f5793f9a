"""The sections of the page, a file each: what is done, what is claimed of it.  `registry.py` lists them.

A section promises: it adds rows as it gets them, so that what was found is shown even if it fails later, and it stops by itself when its
time is up and says how far it came.
"""
