"""Topics of both clusters: found, judged, planned, and whose incarnation is copied."""
