"""What `.cache/` holds: the store, records, digests, and the index that a start reads first."""
