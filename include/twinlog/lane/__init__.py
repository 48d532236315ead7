"""The transactional lane: one writer, its sequences and its transaction."""
