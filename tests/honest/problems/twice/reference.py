def reference(x):
    return 2 * x
