"""Write to the target through a transactional lane: one writer, its sequences and its transaction."""
