"""Encode the offset map: segments of extents, delta-coded, and packed for memory."""
