"""The command line: asks a server, or one that it runs itself, and prints what came of it.  Decides nothing about a kernel."""

import os

# gRPC reads this when it is imported, and else writes every failed handshake to the terminal; what there is to say the client says.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
