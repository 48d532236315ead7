"""Follow mode: lanes stay open, and a record waits for no scheduler."""
