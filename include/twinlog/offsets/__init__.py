"""Translate upstream offsets to downstream offsets: by the exact offset map, and by MM2's sync store."""
