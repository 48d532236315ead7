"""The state that a flow keeps on its target: ledger, progress and offset map, MM2's topics."""
