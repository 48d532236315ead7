"""Proof: GX suites over small frames, audit comparison, the readiness gate, evidence."""
