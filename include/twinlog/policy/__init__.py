"""Decide questions about names: replication policies, filters and the cycle rule.  Pure."""
