"""After a failover, once the source answers again: what is on one side alone, and its export."""
