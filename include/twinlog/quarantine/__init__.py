"""List what was written aside, replay it to a topic of the user's, and skip damaged batches."""
