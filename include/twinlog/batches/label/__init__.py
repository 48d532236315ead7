"""A new writer for a batch, in place, and its checksum without reading the batch."""
