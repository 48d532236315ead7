"""Try a failover's promise on the standby while the source works on: groups are cloned there and really read."""
