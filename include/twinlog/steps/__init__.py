"""The nine steps of a cycle: a module for each, with its contract in a docstring and one call."""
