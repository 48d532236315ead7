"""The `twinlog` command: one file per command, one renderer, one place that prints errors."""
