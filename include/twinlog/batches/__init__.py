"""Kafka record batches, magic 2: read, relabelled, merged, split.  Pure: bytes in, bytes out."""
