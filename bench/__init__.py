"""Measurements; nothing here is imported by twinlog."""
