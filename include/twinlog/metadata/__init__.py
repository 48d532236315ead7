"""Topic configs, ACLs and quotas: planned, applied, remembered."""
