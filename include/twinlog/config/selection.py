"""Which clusters and which flows a file names: MM2's rule for pairs (MirrorMakerConfig.clusterPairs)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from twinlog.config.findings import Findings
from twinlog.config.origin import Properties, given

HEARTBEATS = "emit.heartbeats.enabled"


@dataclass(frozen=True, slots=True)
class Pair:
    """An ordered pair of aliases that MM2 would start connectors for."""

    source: str
    target: str


def clusters_of(raw: Properties, findings: Findings) -> tuple[str, ...]:
    """Return the aliases in `clusters`, each once; a missing list or an empty element is a mistake."""
    written = raw.get("clusters")
    if written is None or not written.text.strip():
        origin = written.origin if written else findings.missing()
        findings.error(origin, "clusters names no cluster", "write clusters = A, B")
        return ()
    aliases = [part.strip() for part in written.text.strip().split(",")]
    if not all(aliases):
        findings.error(written.origin, "has an empty element", "remove the extra comma")
    if len(set(aliases)) < len(aliases):
        findings.warn(written.origin, "names a cluster twice", "keep one")
    return tuple(dict.fromkeys(filter(None, aliases)))


def pairs_of(raw: Properties, aliases: tuple[str, ...], findings: Findings) -> tuple[Pair, ...]:
    """Return every pair that is enabled or beats: n clusters beat n * (n - 1) ways unless told not to."""
    everywhere = _java_true(raw, HEARTBEATS, findings, default="true")
    chosen: list[Pair] = []
    for source, target in permutations(aliases, 2):
        prefix = f"{source}->{target}."
        enabled = _java_true(raw, f"{prefix}enabled", findings, default="false")
        beats = _java_true(raw, prefix + HEARTBEATS, findings, default=str(everywhere))
        if enabled or beats:
            chosen.append(Pair(source, target))
    return tuple(chosen)


def _java_true(raw: Properties, key: str, findings: Findings, *, default: str) -> bool:
    """Boolean.parseBoolean: "true" in any case is true, everything else is false, and deserves a warning."""
    value = raw.get(key, given(default))
    text = value.text.strip().lower()
    if text not in {"true", "false"} and "${" not in text:
        findings.warn(value.origin, "is neither true nor false, and counts as false", "write true or false")
    return text == "true"
