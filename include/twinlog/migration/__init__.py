"""Migrate flows from MirrorMaker 2 and back to it."""
