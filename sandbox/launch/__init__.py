"""How a kernel is launched when the gate asks: the loop that the untrusted runner and the trusted baseline share.  Must not load untrusted
code, and knows no expected value."""
