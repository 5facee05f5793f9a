def reference(x):
    return 1.5 * x
