"""Commands of those who run a server: doctor, backup, check, and the queue, lanes and keys of many users."""
