"""The present state of a flow: lag, RPO, heartbeats, validation, reports, metrics."""
