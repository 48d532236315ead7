"""What was written aside because the target cannot hold it: listed, and replayed to a topic of the user's."""
