"""List what was written aside, and skip damaged batches."""
