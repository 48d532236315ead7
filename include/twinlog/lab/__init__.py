"""Two real clusters on one machine: embedded brokers, and the demo played on them."""
