"""The steps of a failover, what they share, and what they do."""
