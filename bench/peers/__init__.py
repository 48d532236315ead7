"""What a team may write instead of a replicator: relays that pass records on one by one."""
