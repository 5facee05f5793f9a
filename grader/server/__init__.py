"""The gRPC server.  Nothing is imported here: `grader-server --help` passes through."""
