"""Proof that the copy is equal: planned, compared lane by lane, remembered."""
