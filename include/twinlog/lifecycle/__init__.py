"""Topics as they live: created, grown, recreated, deleted, rebuilt; and the gaps between."""
