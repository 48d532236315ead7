"""What a flow looks like now: lag, RPO, heartbeats, validation, reports, metrics."""
