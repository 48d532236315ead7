"""Give a batch a new producer in place, and a new checksum without reading the batch."""
