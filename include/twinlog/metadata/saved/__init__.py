"""Metadata plans that wait in a file for approval."""
