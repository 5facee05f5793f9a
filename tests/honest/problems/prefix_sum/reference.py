def reference(x):
    return x.cumsum(dim=0)
