"""Read, relabel, merge and split Kafka record batches, magic 2.  Pure: bytes in, bytes out."""
