"""Failover of a flow: its procedure, its states in the ledger, and its steps."""
