"""Find the clusters and flows that a file names: MM2's rule for pairs (MirrorMakerConfig.clusterPairs)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from twinlog.config.file.origin import Findings, Properties, Property, given
from twinlog.config.file.providers import Providers
from twinlog.errors import ConfigError

HEARTBEATS = "emit.heartbeats.enabled"


@dataclass(frozen=True, slots=True)
class Pair:
    """An ordered pair of aliases that MM2 would start connectors for."""

    source: str
    target: str


def clusters_of(raw: Properties, providers: Providers, findings: Findings) -> tuple[str, ...]:
    """Return the aliases in `clusters`, each once; a missing list or an empty element is a mistake."""
    written = raw.get("clusters")
    text = _expanded(written, providers, findings) if written is not None else ""
    if written is None or not text:
        origin = written.origin if written else findings.missing()
        findings.error(origin, "clusters names no cluster", "write clusters = A, B")
        return ()
    aliases = [part.strip() for part in text.split(",")]
    if not all(aliases):
        findings.error(written.origin, "has an empty element", "remove the extra comma")
    if len(set(aliases)) < len(aliases):
        findings.warn(written.origin, "names a cluster twice", "keep one")
    return tuple(dict.fromkeys(filter(None, aliases)))


def pairs_of(
    raw: Properties, aliases: tuple[str, ...], providers: Providers, findings: Findings
) -> tuple[Pair, ...]:
    """Return every pair that is enabled or writes heartbeats: by default n clusters have n * (n - 1) pairs."""
    everywhere = _java_true(raw.get(HEARTBEATS, given("true")), providers, findings)
    chosen: list[Pair] = []
    for source, target in permutations(aliases, 2):
        prefix = f"{source}->{target}."
        enabled = _java_true(raw.get(f"{prefix}enabled", given("false")), providers, findings)
        beats = _java_true(raw.get(prefix + HEARTBEATS, given(str(everywhere))), providers, findings)
        if enabled or beats:
            chosen.append(Pair(source, target))
    return tuple(chosen)


def _java_true(value: Property, providers: Providers, findings: Findings) -> bool:
    """Read a boolean as Boolean.parseBoolean does: "true" in any case is true, the rest is false, with a warning."""
    text = _expanded(value, providers, findings, otherwise="true").lower()
    if text not in {"true", "false"} and not findings.blames(value.origin):
        findings.warn(value.origin, "is neither true nor false, and counts as false", "write true or false")
    return text == "true"


def _expanded(value: Property, providers: Providers, findings: Findings, otherwise: str = "") -> str:
    """Replace references, as MM2 does before it looks for pairs.

    If one cannot be resolved, keep that as a finding and return `otherwise`: a flow that may be enabled elsewhere is
    read as enabled.
    """
    try:
        return providers.expand(value).text
    except ConfigError as error:
        findings.unresolved(value.origin, error)
        return otherwise
