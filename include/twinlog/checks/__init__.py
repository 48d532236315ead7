"""Checks as data: rows and suites, judged in plain Python or by Great Expectations."""
