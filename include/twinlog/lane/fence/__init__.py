"""The fence: from here on only this driver writes for the flow (docs/decisions/0001-fence.md)."""
