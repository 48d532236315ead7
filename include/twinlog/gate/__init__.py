"""The readiness gate: everything that matters before a failover, and one answer."""
