"""Records of the ledger: JSON, versioned, a key each."""
