"""The heart of a copy: take the flow, mend what the target lost, resolve the ranges, run the lanes."""
