"""Topics created, grown, recreated, deleted and rebuilt; and the gaps between their incarnations."""
