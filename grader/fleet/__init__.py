"""The protocol between a server and its workers, generated."""
