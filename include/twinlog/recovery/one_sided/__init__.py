"""What one side of a flow alone has: read from its log, and written to files."""
