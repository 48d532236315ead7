"""Changing who copies, and which way: take-over from MirrorMaker 2 and hand-over back to it."""
