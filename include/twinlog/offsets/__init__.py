"""The offset map (exact) and MM2's sync store: which downstream offset an upstream offset is."""
