"""Apply the transforms of a topic (twinlog.transforms) to records by column, and to whole batches."""
