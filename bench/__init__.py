"""Measurements; twinlog does not import them."""
