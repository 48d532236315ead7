"""Consumer groups: where each goes on at the target, and what was committed there."""
