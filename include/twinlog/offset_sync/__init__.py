"""MM2's offset syncs, derived from the map; and the map's own compaction."""
