"""The steps of the cycle and what stands beside it; docs/architecture.md says which module thinks and which does."""
