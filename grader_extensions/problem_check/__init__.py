"""The check of a problem before anything is submitted to it: does it tell right answers from wrong ones?  It grades no submission."""
