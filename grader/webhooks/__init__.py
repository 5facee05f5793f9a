"""Sends what the ledger's outbox holds to addresses that others named: to public ones only, signed and retried. It never reads a source."""
