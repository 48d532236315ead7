"""The gate's checks, as data."""
