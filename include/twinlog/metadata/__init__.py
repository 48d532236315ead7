"""Topic configs, ACLs, quotas and SCRAM users: planned, applied, remembered."""
