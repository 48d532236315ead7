"""From the path of an mm2.properties file to a Configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config import properties_file
from twinlog.config.clusters import cluster_by_itself
from twinlog.config.findings import Findings, Severity
from twinlog.config.flows import ResolvedFlow, resolve_flow
from twinlog.config.lint import lint
from twinlog.config.providers import AirflowResolver, providers_of
from twinlog.config.selection import clusters_of, pairs_of
from twinlog.config.settings import Configuration, FlowSettings


@dataclass(frozen=True, slots=True)
class Resolution:
    """A configuration and what `explain` shows beside it: each value's origin, notes that are no mistakes."""

    configuration: Configuration
    flows: Mapping[str, ResolvedFlow]
    notes: tuple[str, ...]


def load(
    path: Path,
    *,
    strict: bool = False,
    environ: Mapping[str, str] = os.environ,
    airflow: AirflowResolver | None = None,
) -> Configuration:
    """Read a configuration file.

    `environ` answers `${env:NAME}`; `airflow`, given inside Airflow only, answers `${airflow:conn_id}` and
    `${airflow:conn_id:field}`.  Raises one ConfigError that lists every mistake with file, line and key;
    under `strict` the warnings are mistakes too.  No cluster is contacted.
    """
    return resolve(path, strict=strict, environ=environ, airflow=airflow).configuration


def resolve(
    path: Path,
    *,
    strict: bool = False,
    environ: Mapping[str, str] = os.environ,
    airflow: AirflowResolver | None = None,
) -> Resolution:
    """Do the same as `load` and keep where each value came from."""
    findings = Findings(path.name)
    file = properties_file.read(path, findings)
    raw = file.properties
    providers, declaration_errors = providers_of(raw, environ, airflow)
    for error in declaration_errors:
        findings.error(raw[str(error.data["key"])].origin, error.message, error.hint)
    aliases = clusters_of(raw, providers, findings)
    clusters = {alias: cluster_by_itself(alias, raw, providers, findings) for alias in aliases}
    resolved = [
        resolve_flow(raw, pair.source, pair.target, providers, findings)
        for pair in pairs_of(raw, aliases, providers, findings)
    ]
    lint(raw, aliases, tuple(flow.settings for flow in resolved), findings)
    findings.raise_if_unusable(strict=strict)
    flows = {flow.settings.name: flow for flow in resolved}
    configuration = Configuration(
        path=path,
        sha256=file.sha256,
        clusters=clusters,
        flows=with_ways_back({
            name: replace(flow.settings, aliases=frozenset(aliases)) for name, flow in flows.items()
        }),
        warnings=findings.lines(Severity.WARNING),
    )
    return Resolution(configuration, flows, findings.lines(Severity.NOTE))


def with_ways_back(flows: Mapping[str, FlowSettings]) -> Mapping[str, FlowSettings]:
    """Give each flow that copies the flow the other way, where that one only beats.  Pure."""

    def way_back(flow: FlowSettings) -> FlowSettings | None:
        found = flows.get(f"{flow.target.alias}->{flow.source.alias}")
        return found if found is not None and not found.enabled and found.emit_heartbeats else None

    return {
        name: replace(flow, way_back=way_back(flow)) if flow.enabled else flow for name, flow in flows.items()
    }
