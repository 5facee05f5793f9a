"""Generated from proto/grader/fleet/v1 by `make proto` with grpcio-tools 1.85.1; do not edit."""
