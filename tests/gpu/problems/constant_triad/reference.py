def reference(a, b):
    return 2 * a + b
