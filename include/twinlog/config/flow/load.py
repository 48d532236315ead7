"""Load an mm2.properties file into a Configuration, and find a flow in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, permutations
from pathlib import Path

from twinlog.config.file import properties_file
from twinlog.config.file.origin import Findings, Properties, Property, Severity, given
from twinlog.config.file.providers import AirflowResolver, Providers, providers_of
from twinlog.config.flow.flows import (
    ResolvedFlow,
    cluster_by_itself,
    resolve_flows,
)
from twinlog.config.flow.lint import lint, refuse_left
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.settings import Configuration, CopiedBy, FlowSettings
from twinlog.errors import ConfigError, UsageError
from twinlog.grouped import grouped
from twinlog.policy.replication import IdentityReplicationPolicy, knowing
from twinlog.policy.selection import NameFilter

HEARTBEATS = "emit.heartbeats.enabled"


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
) -> list[tuple[str, str]]:
    """Return every pair (source, target) for which MM2 starts connectors (MirrorMakerConfig.clusterPairs).

    It starts a heartbeat connector for each whose `emit.heartbeats.enabled` is true, whether the pair copies or not:
    by default n clusters have n * (n - 1) pairs.
    """
    everywhere = _java_true(raw.get(HEARTBEATS, given("true")), providers, findings)
    chosen: list[tuple[str, str]] = []
    for source, target in permutations(aliases, 2):
        prefix = f"{source}->{target}."
        enabled = _java_true(raw.get(f"{prefix}enabled", given("false")), providers, findings)
        writes = _java_true(raw.get(prefix + HEARTBEATS, given(str(everywhere))), providers, findings)
        if enabled or writes:
            chosen.append((source, target))
    return chosen


def with_heartbeats(flows: Mapping[str, FlowSettings]) -> Mapping[str, FlowSettings]:
    """Give each copying flow the pairs it writes heartbeats for, and the writer of those on its source.  Pure.

    It writes them for itself, for its reverse flow, and for the pairs without a flow that are assigned to it.
    """
    copying = [flow for flow in flows.values() if flow.enabled and not flow.observed]
    reverse = {flow.name: _reverse(flow, flows) for flow in copying}
    taken = {found.name for found in reverse.values() if found is not None}
    alone = [flow for flow in flows.values() if _only_heartbeats(flow) and flow.name not in taken]
    others = grouped((_writer(pair, copying), pair) for pair in alone)
    into = {flow.target.alias: flow for flow in reversed([*flows.values()]) if flow.emit_heartbeats}

    def completed(flow: FlowSettings) -> FlowSettings:
        return replace(
            flow,
            reverse_heartbeats=reverse[flow.name],
            other_heartbeats=tuple(others.get(flow.name, ())),
            source_heartbeats=into.get(flow.source.alias),
        )

    return {name: completed(flow) if name in reverse else flow for name, flow in flows.items()}


def _observing(flow: FlowSettings) -> FlowSettings:
    """Write nothing that the engine writes which copies the flow; heartbeats are MirrorMaker 2's alone."""
    if not flow.observed:
        return flow
    return replace(
        flow,
        emit_heartbeats=False,
        emit_checkpoints=False,
        emit_offset_syncs=False,
        sync_group_offsets=False,
        heartbeats_replication=flow.heartbeats_replication and flow.copied_by is CopiedBy.MIRROR_MAKER,
    )


def _writer(pair: FlowSettings, copying: Sequence[FlowSettings]) -> str:
    """Name the flow that writes heartbeats for a pair without a flow.

    The first flow that copies from or to the pair's target, because heartbeats are written there; else the first flow.
    If no flow copies, nothing runs.
    """
    meeting = (flow for flow in copying if pair.target.alias in {flow.source.alias, flow.target.alias})
    return next(chain((flow.name for flow in meeting), (it.name for it in copying)), "")


def _only_heartbeats(flow: FlowSettings) -> bool:
    return not flow.enabled and flow.emit_heartbeats


def _reverse(flow: FlowSettings, flows: Mapping[str, FlowSettings]) -> FlowSettings | None:
    found = flows.get(f"{flow.target.alias}->{flow.source.alias}")
    return found if found is not None and _only_heartbeats(found) else None


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


@dataclass(frozen=True, slots=True)
class Resolution:
    """A configuration and what `plan --explain` shows beside it: each value's origin, and notes that are no mistakes.

    `unresolved` lists values that are not on this machine.
    """

    configuration: Configuration
    flows: Mapping[str, ResolvedFlow]
    notes: tuple[str, ...]
    unresolved: tuple[str, ...] = ()


LENIENT = "TWINLOG_LENIENT"
"""Set in the environment (by `--lenient`), a key of a flow or of `twinlog.` that nobody knows is only warned of."""
STRICT = "TWINLOG_STRICT"
"""Set in the environment (by `--strict`), warnings are mistakes too."""


def load(
    path: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    airflow: AirflowResolver | None = None,
) -> Configuration:
    """Read a configuration file.

    `environ` answers `${env:NAME}`; `airflow`, given inside Airflow only, answers `${airflow:conn_id}` and
    `${airflow:conn_id:field}`.  Raises one ConfigError that lists every mistake with file, line and key.  No cluster is
    contacted.
    """
    return resolve(path, environ=environ, airflow=airflow).configuration


def resolve(
    path: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    airflow: AirflowResolver | None = None,
    elsewhere: bool = False,
) -> Resolution:
    """Read a configuration file as `load` does, and keep where each value came from.

    If `elsewhere`, the things that values refer to need not be on this machine.  `unresolved` lists those that are
    not; the settings hold defaults in their place, fit for viewing only.
    """
    findings = Findings(path.name, elsewhere=elsewhere, lenient=LENIENT in environ)
    file = properties_file.read(path, findings)
    raw = file.properties
    providers, declaration_errors = providers_of(raw, environ, airflow)
    for error in declaration_errors:
        findings.error(raw[str(error.data["key"])].origin, error.message, error.hint)
    aliases = clusters_of(raw, providers, findings)
    refuse_left(raw, aliases, findings)
    clusters = {alias: cluster_by_itself(alias, raw, providers, findings) for alias in aliases}
    resolved = resolve_flows(raw, pairs_of(raw, aliases, providers, findings), providers, findings)
    settings = tuple(flow.settings for flow in resolved)
    lint(raw, aliases, settings, findings)
    findings.raise_if_unusable(strict=STRICT in environ)
    flows = {flow.settings.name: flow for flow in resolved}
    configuration = Configuration(
        path=file.path,
        sha256=file.sha256,
        clusters=clusters,
        flows=with_heartbeats({
            name: replace(
                _observing(flow.settings),
                aliases=frozenset(aliases),
                policy=knowing(flow.settings.policy, aliases),
                metadata=_with_reverse(flow.settings, flows),
                topics_back=_topics_back(flow.settings, flows),
            )
            for name, flow in flows.items()
        }),
        warnings=findings.lines(Severity.WARNING),
    )
    return Resolution(
        configuration, flows, findings.lines(Severity.NOTE), findings.lines(Severity.UNRESOLVED)
    )


def _with_reverse(flow: FlowSettings, flows: Mapping[str, ResolvedFlow]) -> MetadataSettings:
    """Tell a flow whether the reverse one copies subjects of a schema registry, too."""
    reverse = flows.get(f"{flow.target.alias}->{flow.source.alias}")
    copied = reverse is not None and reverse.settings.enabled and reverse.settings.metadata.schemas.copied
    return replace(flow.metadata, schemas=replace(flow.metadata.schemas, both_ways=copied))


def _topics_back(flow: FlowSettings, flows: Mapping[str, ResolvedFlow]) -> NameFilter | None:
    """Tell a flow which topics the reverse one copies under their names, so that clients write to its own copies."""
    reverse = flows.get(f"{flow.target.alias}->{flow.source.alias}")
    if reverse is None or not reverse.settings.enabled:
        return None
    return reverse.settings.topics if isinstance(reverse.settings.policy, IdentityReplicationPolicy) else None


def enabled_flow(configuration: Configuration, name: str) -> FlowSettings:
    """Return the enabled flow of a name.  Raises UsageError if the file does not have it, or does not enable it."""
    flow = configuration.flows.get(name)
    if flow is not None and flow.enabled:
        return flow
    known = ", ".join(settings.name for settings in configuration.enabled_flows) or "none"
    if flow is not None:
        raise UsageError(
            f"flow {name} of {configuration.path} is not enabled",
            hint=f"set {name}.enabled = true there, or choose one of: {known}",
            flow=name,
            file=str(configuration.path),
        )
    raise UsageError(
        f"{configuration.path} has no flow {name}",
        hint=f"its enabled flows are: {known}",
        flow=name,
        file=str(configuration.path),
    )
