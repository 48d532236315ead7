"""The user's own rules of the data, asked of a sample."""
