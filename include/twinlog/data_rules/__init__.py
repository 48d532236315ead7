"""The user's own rules of the data, applied to a sample."""
