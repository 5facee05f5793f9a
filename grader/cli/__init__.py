"""The command line: asks a server, or one that it runs itself, and prints what came of it.  Decides nothing about a kernel."""
