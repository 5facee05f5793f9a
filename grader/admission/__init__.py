"""Asks whether a problem tells right answers from wrong ones, in a box, before anything is submitted to it. It grades no submission."""
