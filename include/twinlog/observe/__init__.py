"""Observe copies that others make: match both logs record by record, read only."""
