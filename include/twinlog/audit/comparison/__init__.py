"""Two sides of one partition, compared batch by batch and record by record.  Pure."""
