"""twinlog for programs: where groups go on, and which cluster is behind which (docs/client.md)."""
