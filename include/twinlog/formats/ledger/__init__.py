"""Encode and decode the records of the ledger: versioned JSON, each under its own key."""
