"""Commands for failing over, going home, drills, and what must be ready before."""
