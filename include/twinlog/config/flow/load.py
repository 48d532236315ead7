"""Load an mm2.properties file into a Configuration, and find a flow in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config.file import properties_file
from twinlog.config.file.origin import Findings, Severity, given
from twinlog.config.file.providers import AirflowResolver, providers_of
from twinlog.config.flow.flows import (
    PRODUCT,
    ResolvedFlow,
    cluster_by_itself,
    cluster_settings,
    resolve_flow,
)
from twinlog.config.flow.lint import lint, refuse_left
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.pairs import clusters_of, pairs_of, with_heartbeats
from twinlog.config.flow.precedence import ROLES
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.errors import UsageError
from twinlog.policy.replication import knowing


@dataclass(frozen=True, slots=True)
class Resolution:
    """A configuration and what `explain` shows beside it: each value's origin, and notes that are no mistakes.

    `unresolved` lists values that are not on this machine.
    """

    configuration: Configuration
    flows: Mapping[str, ResolvedFlow]
    notes: tuple[str, ...]
    unresolved: tuple[str, ...] = ()


LENIENT = "TWINLOG_LENIENT"
"""Set in the environment (by `--lenient`), a key of a flow or of `twinlog.` that nobody knows is only warned of."""


def load(
    path: Path,
    *,
    strict: bool = False,
    environ: Mapping[str, str] = os.environ,
    airflow: AirflowResolver | None = None,
) -> Configuration:
    """Read a configuration file.

    `environ` answers `${env:NAME}`; `airflow`, given inside Airflow only, answers `${airflow:conn_id}` and
    `${airflow:conn_id:field}`.  Raises one ConfigError that lists every mistake with file, line and key; under
    `strict` warnings are mistakes too.  No cluster is contacted.
    """
    return resolve(path, strict=strict, environ=environ, airflow=airflow).configuration


def resolve(
    path: Path,
    *,
    strict: bool = False,
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
    return _resolution(file, findings, strict=strict, environ=environ, airflow=airflow)


def resolve_text(text: str, path: Path) -> Resolution:
    """Read the text of a file that is still to be written to `path`, on any machine.  Raises as `resolve`."""
    findings = Findings(path.name, elsewhere=True)
    properties = properties_file.parse(text.encode("latin-1"), path.name, findings)
    file = properties_file.PropertiesFile(path, "", properties)
    return _resolution(file, findings, strict=False, environ={}, airflow=None)


def _resolution(
    file: properties_file.PropertiesFile,
    findings: Findings,
    *,
    strict: bool,
    environ: Mapping[str, str],
    airflow: AirflowResolver | None,
) -> Resolution:
    raw = file.properties
    providers, declaration_errors = providers_of(raw, environ, airflow)
    for error in declaration_errors:
        findings.error(raw[str(error.data["key"])].origin, error.message, error.hint)
    aliases = clusters_of(raw, providers, findings)
    refuse_left(raw, aliases, findings)
    clusters = {alias: cluster_by_itself(alias, raw, providers, findings) for alias in aliases}
    resolved = [
        resolve_flow(raw, pair.source, pair.target, providers, findings)
        for pair in pairs_of(raw, aliases, providers, findings)
    ]
    settings = tuple(flow.settings for flow in resolved)
    lint(raw, aliases, settings, findings)
    findings.raise_if_unusable(strict=strict)
    flows = {flow.settings.name: flow for flow in resolved}
    configuration = Configuration(
        path=file.path,
        sha256=file.sha256,
        clusters=clusters,
        flows=with_heartbeats({
            name: replace(
                flow.settings,
                aliases=frozenset(aliases),
                policy=knowing(flow.settings.policy, aliases),
                metadata=_with_reverse(flow.settings, flows),
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


def load_client(
    cluster: ClusterSettings, path: Path, *, environ: Mapping[str, str] = os.environ
) -> ClusterSettings:
    """Read how an application reaches a cluster: a properties file as Kafka's own tools take it.

    Without `bootstrap.servers` it is the address that twinlog uses.  Raises ConfigError with every mistake.
    """
    findings = Findings(path.name)
    written = properties_file.read(path, findings).properties
    providers, declaration_errors = providers_of(written, environ, None)
    for error in declaration_errors:
        findings.error(written[str(error.data["key"])].origin, error.message, error.hint)
    properties = {"bootstrap.servers": given(cluster.bootstrap_servers), **written}
    reader = Reader({}, providers, findings)
    found = cluster_settings(cluster.alias, dict.fromkeys(ROLES, properties), "consumer", PRODUCT, reader)
    findings.raise_if_unusable(strict=False)
    return found


def enabled_flow(configuration: Configuration, name: str) -> FlowSettings:
    """Return the enabled flow of a name.  Raises UsageError if the file does not have it, or does not enable it."""
    flow = configuration.flows.get(name)
    if flow is not None and flow.enabled:
        return flow
    known = ", ".join(it.name for it in configuration.enabled_flows) or "none"
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
