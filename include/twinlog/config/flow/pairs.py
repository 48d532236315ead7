"""Find the clusters and flows that a file names, and the flow that writes heartbeats for each pair of clusters.

MM2 starts a heartbeat connector for each ordered pair whose `emit.heartbeats.enabled` is true, whether the pair copies
or not (MirrorMakerConfig.clusterPairs).  twinlog runs only flows that copy.  Each of them writes heartbeats for
itself, for its reverse flow, and for the pairs without a flow that are assigned to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

from twinlog.config.file.origin import Findings, Properties, Property, given
from twinlog.config.file.providers import Providers
from twinlog.config.flow.settings import FlowSettings
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
        writes = _java_true(raw.get(prefix + HEARTBEATS, given(str(everywhere))), providers, findings)
        if enabled or writes:
            chosen.append(Pair(source, target))
    return tuple(chosen)


def with_heartbeats(flows: Mapping[str, FlowSettings]) -> Mapping[str, FlowSettings]:
    """Give each copying flow the pairs it writes heartbeats for, and the writer of those on its source.  Pure."""
    copying = [flow for flow in flows.values() if flow.enabled]
    reverse = {flow.name: _reverse(flow, flows) for flow in copying}
    taken = {found.name for found in reverse.values() if found is not None}
    alone = [flow for flow in flows.values() if _only_heartbeats(flow) and flow.name not in taken]

    def completed(flow: FlowSettings) -> FlowSettings:
        return replace(
            flow,
            reverse_heartbeats=reverse[flow.name],
            other_heartbeats=tuple(pair for pair in alone if _writer(pair, copying) is flow),
            source_heartbeats=_into(flow.source.alias, flows.values()),
        )

    return {name: completed(flow) if flow.enabled else flow for name, flow in flows.items()}


def _writer(pair: FlowSettings, copying: Iterable[FlowSettings]) -> FlowSettings | None:
    """Choose the flow that writes heartbeats for a pair without a flow.

    The first flow that copies from or to the pair's target, because heartbeats are written there; else the first flow.
    None if no flow copies, because then nothing runs.
    """
    flows = tuple(copying)
    meeting = (flow for flow in flows if pair.target.alias in {flow.source.alias, flow.target.alias})
    return next(meeting, flows[0] if flows else None)


def _only_heartbeats(flow: FlowSettings) -> bool:
    return not flow.enabled and flow.emit_heartbeats


def _reverse(flow: FlowSettings, flows: Mapping[str, FlowSettings]) -> FlowSettings | None:
    found = flows.get(f"{flow.target.alias}->{flow.source.alias}")
    return found if found is not None and _only_heartbeats(found) else None


def _into(alias: str, flows: Iterable[FlowSettings]) -> FlowSettings | None:
    """Find the flow that writes heartbeats on a cluster: the reverse of a flow, or any other pair."""
    return next((flow for flow in flows if flow.target.alias == alias and flow.emit_heartbeats), None)


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
