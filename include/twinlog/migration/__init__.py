"""From MirrorMaker 2 and back to it."""
