"""Sends what the ledger's outbox holds to addresses that others named, signed and retried. To public addresses only; it never reads a source."""
