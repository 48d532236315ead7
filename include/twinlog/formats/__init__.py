"""Encode and decode the bytes of internal records: the ledger, the offset map, MM2's own."""
