"""Proof that the copy equals its source: planned, compared lane by lane, remembered in the ledger."""
