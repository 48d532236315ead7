"""Fence a flow: afterwards only this driver writes for it (docs/decisions/0001-fence.md)."""
