"""Topics of both clusters: found, judged, planned, and which incarnation is copied."""
