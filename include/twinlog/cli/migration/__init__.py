"""Commands that go on behind another replicator, and import its configuration."""
