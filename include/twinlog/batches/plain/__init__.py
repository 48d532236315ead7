"""Deal with what is plain at the beginning of a fetched block: large batches as they are, small ones merged in C."""
