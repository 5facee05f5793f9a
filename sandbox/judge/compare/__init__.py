"""Whether outputs are right: tolerance, budget, rounding noise.  Pure functions on tensors; must not run a kernel or a reference."""
