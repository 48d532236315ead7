"""Consumer groups: the position at which each goes on at the target, and what was committed there."""
