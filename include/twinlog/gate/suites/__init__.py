"""What the gate asks, as data."""
