"""The heart of a copy: take the flow, mend what the target lost, settle the ranges, run the lanes."""
