"""The readiness gate: every check that matters before a failover, and one answer."""
