"""Names of resources, as people write them."""

from __future__ import annotations


def full_name(collection: str, name: str) -> str:
    """collection/ID for ID and for collection/ID."""
    return name if name.startswith(f"{collection}/") else f"{collection}/{name}"
