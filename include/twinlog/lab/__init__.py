"""Two real clusters on one machine: embedded brokers, and the demo that runs on them."""
