"""Replication policies, filters and the cycle rule: pure questions about names."""
