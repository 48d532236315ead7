"""Compare two sides of one partition, batch by batch and record by record.  Pure."""
