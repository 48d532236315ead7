"""Relay records one by one, as a team might with a program of its own instead of a replicator."""
