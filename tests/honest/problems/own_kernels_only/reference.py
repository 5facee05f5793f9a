def reference(alpha, x, y):
    return alpha * x + y
