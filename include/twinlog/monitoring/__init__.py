"""The present state of a flow: lag, RPO, heartbeats, reports, metrics."""
