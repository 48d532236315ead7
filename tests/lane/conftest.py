"""Pauses are a fiftieth of their length here: fakes need no time."""

from short_pauses import short_pauses  # noqa: F401  (a fixture)
