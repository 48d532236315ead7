"""Encode and decode MirrorMaker 2's and Kafka Connect's own records."""
