"""What `make gpu` runs on a host with a GPU: the tests of `tests/gpu`, and the tables that have to be shown."""
