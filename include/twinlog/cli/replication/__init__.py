"""Commands that copy, and that change what is copied."""
