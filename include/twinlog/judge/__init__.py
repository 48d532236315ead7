"""Judge the facts of a flow: one table of checks, by Python, and by Great Expectations for Data Docs."""
