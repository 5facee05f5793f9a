"""How fast a kernel is: interleaved measurements, overhead, noise and speedup.  Must not decide a verdict."""
