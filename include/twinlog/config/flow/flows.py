"""Resolve the clusters and flows of a file into settings: MM2's keys by MM2's rules, and our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from twinlog.config.file.origin import Findings, Properties, given, is_elsewhere
from twinlog.config.file.providers import Providers, Secret, reveal
from twinlog.config.flow import precedence
from twinlog.config.flow.failover import refuse_two_hooks
from twinlog.config.flow.known_keys import KEYS
from twinlog.config.flow.precedence import ROLES
from twinlog.config.flow.reader import Reader, ResolvedValue
from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.config.flow.tiers import read_tiers
from twinlog.config.flow.transforms import read_transforms
from twinlog.config.flow.values import IS_TRUE, declared_in, read_settings
from twinlog.config.security.client_properties import connection_settings
from twinlog.config.security.connection import (
    ClientProperties,
    ClusterSettings,
    ConnectionSettings,
    text_of,
)
from twinlog.config.security.exposure import FETCH_SIZES, STEERING, exposures
from twinlog.config.security.librdkafka import tunables
from twinlog.errors import ConfigError

PRODUCT = "twinlog"
ADDRESSES = "bootstrap.servers"
STORAGE = "offset.storage."
OFFSETS_TOPIC = f"{STORAGE}topic"


@dataclass(frozen=True, slots=True)
class ResolvedFlow:
    """A flow, and a record of each value that made it."""

    settings: FlowSettings
    values: tuple[ResolvedValue, ...]


@dataclass(frozen=True, slots=True)
class _Sources:
    """The properties of one flow after precedence, by their reader."""

    connector: Properties
    worker: Properties
    settings: Properties

    @classmethod
    def of(cls, raw: Properties, source: str, target: str) -> _Sources:
        connector = precedence.connector_config(raw, source, target)
        worker = precedence.worker_config(raw, source, target)
        storage = {key: value for key, value in worker.items() if key.startswith(STORAGE)}
        consumer = precedence.connector_client(connector, "source", "consumer")
        steering = {f"consumer.{key}": consumer[key] for key in STEERING if key in consumer}
        # The relay fetches as much as the consumer may, unless our own key says otherwise.
        derived = {
            ours: consumer[key].by(f"as {key}") for key, ours in FETCH_SIZES.items() if key in consumer
        }
        own = {**derived, **precedence.own_settings(raw, connector)}
        copies = own.get("twinlog.copied.by")
        if (
            copies is not None and copies.text.strip() == CopiedBy.MIRROR_MAKER
        ):  # aborted records are in its copies
            steering.setdefault(
                "consumer.isolation.level", given("read_uncommitted", "MirrorMaker 2's default")
            )
        no_storage = {key: value for key, value in connector.items() if not key.startswith(STORAGE)}
        return cls(connector, worker, {**no_storage, **storage, **steering, **own})


def resolve_flow(
    raw: Properties, source: str, target: str, providers: Providers, findings: Findings
) -> ResolvedFlow:
    """Return the flow from `source` to `target`; mistakes go to `findings`, defaults take their place."""
    sources = _Sources.of(raw, source, target)
    read = Reader(sources.settings, providers, findings, KEYS)
    _refuse_what_cannot_be_followed(read, source, target)
    upstream, downstream = _ends(sources, source, target, read)
    enabled = IS_TRUE.read(read, "enabled")
    settings = read_settings(
        FlowSettings,
        read,
        source=upstream,
        target=downstream,
        enabled=enabled,
        tiers=read_tiers(read, enabled=enabled),
        transforms=read_transforms(read),
        progress_on_source=_progress_on_source(raw, source, target, read),
    )
    refuse_two_hooks(read, settings.failover)
    return ResolvedFlow(settings, tuple(read.trace.values()))


def resolve_flows(
    raw: Properties, pairs: Iterable[tuple[str, str]], providers: Providers, findings: Findings
) -> list[ResolvedFlow]:
    """Return the flow of each pair (source, target), as `resolve_flow` does.

    n clusters have n * (n - 1) pairs, of which most only write heartbeats.  A pair that the file does not name is what
    the first one from its source says, and, of its target, what the first one to it says.
    """
    named = [key for key in raw if "->" in key]
    policy = "replication.policy.class" in raw  # it may know both of its aliases
    first_from: dict[str, ResolvedFlow] = {}
    first_to: dict[str, ResolvedFlow] = {}
    found = []
    for source, target in pairs:
        by_itself = policy or any(key.startswith(f"{source}->{target}.") for key in named)
        if by_itself or source not in first_from or target not in first_to:
            flow = resolve_flow(raw, source, target, providers, findings)
        else:
            flow = _between(first_from[source], first_to[target])
        if not by_itself:
            first_from.setdefault(source, flow)
            first_to.setdefault(target, flow)
        found.append(flow)
    return found


def _between(outgoing: ResolvedFlow, incoming: ResolvedFlow) -> ResolvedFlow:
    """Return the flow from one flow's source to another's target, neither of which is in the file by name."""
    source, target = outgoing.settings.source, incoming.settings.target
    client_id = _client_id(source.alias, target.alias)
    stored = [name for name, it in declared_in(FlowSettings).items() if it.key.name.startswith(STORAGE)]
    settings = replace(
        outgoing.settings,
        source=_called(source, outgoing, client_id),
        target=_called(target, incoming, client_id),
        **{name: getattr(incoming.settings, name) for name in stored},
    )
    of_target = ("target.", STORAGE)
    other = f"{outgoing.settings.target.alias} "
    kept = [resolved for resolved in outgoing.values if not resolved.key.startswith((other, *of_target))]
    taken = [
        replace(resolved, shown=settings.offsets_topic) if resolved.key == OFFSETS_TOPIC else resolved
        for resolved in incoming.values
        if resolved.key.startswith((f"{target.alias} ", *of_target))
    ]
    return ResolvedFlow(settings, (*kept, *taken))


def _client_id(source: str, target: str) -> str:
    return f"{source}->{target}|{PRODUCT}"


def _called(cluster: ClusterSettings, flow: ResolvedFlow, client_id: str) -> ClusterSettings:
    """Return a cluster's settings with another client id at the end of the one that brokers see, which is a flow's."""
    prefix = cluster.connection.client_id.removesuffix(f"{flow.settings.name}|{PRODUCT}")
    return replace(cluster, connection=replace(cluster.connection, client_id=prefix + client_id))


def _progress_on_source(raw: Properties, source: str, target: str, read: Reader) -> frozenset[str]:
    """Return the topics where flows into the source keep their progress, in this file or only in the other side's."""
    worker = precedence.worker_config(raw, target, source)[OFFSETS_TOPIC]
    own = {it: value for it, value in raw.items() if it.endswith(f"->{source}.offsets.storage.topic")}
    written = own | ({OFFSETS_TOPIC: worker} if worker.origin.line else {})
    return frozenset(filter(None, read.plain(written).values()))


def _refuse_what_cannot_be_followed(read: Reader, source: str, target: str) -> None:
    for key, alias in (("source.cluster.alias", source), ("target.cluster.alias", target)):
        if read.text(key) != alias:
            read.refuse(key, f"contradicts the flow {source}->{target}", "remove it")
    for key in ("topic.filter.class", "group.filter.class", "config.property.filter.class"):
        if read.text(key) not in {KEYS[key].default, (KEYS[key].default or "").rpartition(".")[2]}:
            read.refuse(key, "Java filter classes cannot run here", "use the include and exclude lists")


def _ends(
    sources: _Sources, source: str, target: str, read: Reader
) -> tuple[ClusterSettings, ClusterSettings]:
    client_id = _client_id(source, target)
    upstream = {role: precedence.connector_client(sources.connector, "source", role) for role in ROLES}
    downstream = {role: precedence.connector_client(sources.connector, "target", role) for role in ROLES}
    downstream["producer"] = precedence.data_producer(sources.worker, sources.connector)
    return (
        cluster_settings(source, upstream, "consumer", client_id, read),
        cluster_settings(target, downstream, "producer", client_id, read),
    )


def cluster_by_itself(
    alias: str, raw: Properties, providers: Providers, findings: Findings
) -> ClusterSettings:
    """Return the settings by which `check` and `status` reach a cluster: MirrorClientConfig's rules."""
    roles = {role: precedence.client_config(raw, alias, role) for role in ROLES}
    return cluster_settings(alias, roles, "admin", PRODUCT, Reader({}, providers, findings))


def cluster_settings(
    alias: str, roles: Mapping[str, Properties], relay_role: str, client_id: str, reader: Reader
) -> ClusterSettings:
    """Return the settings of one cluster; the relay connects with the properties of `relay_role`.

    Each role is tried, so that reading the file finds a mistake in any of them.  A role with a value that is known
    only elsewhere is judged there.
    """
    properties = {role: reader.client(f"{alias} {role}", roles[role]) for role in ROLES}
    connections: dict[str, ConnectionSettings] = {}
    for role in ROLES:
        prefix = properties[role].get("client.id")
        name = f"{reveal(prefix)}|{client_id}" if prefix else client_id
        try:
            tunables(properties[role])
            connections[role] = _connection(alias, properties[role], roles[role], name, reader.findings)
            for found in exposures(connections[role], properties[role]):
                reader.findings.warn(roles[role][found.key].origin, found.message, found.hint)
        except ConfigError as error:
            if reader.knows(roles[role]):
                _keep(error, alias, roles[role], reader.findings)
            connections[role] = ConnectionSettings(alias, bootstrap=())
    return ClusterSettings(
        alias=alias,
        bootstrap_servers=text_of(properties[relay_role], "bootstrap.servers"),
        connection=connections[relay_role],
        **properties,
    )


def _connection(
    alias: str, properties: ClientProperties, written: Properties, client_id: str, findings: Findings
) -> ConnectionSettings:
    """Return how one client connects; a missing value of another machine's file is left out if possible.

    Raises as `connection_settings`.
    """
    here = dict(properties)
    if findings.elsewhere and here.get(ADDRESSES) == Secret(""):
        # By reference: the other properties can be judged.
        here[ADDRESSES] = "elsewhere:9092"
    while True:
        try:
            return connection_settings(alias, here, client_id=client_id)
        except ConfigError as error:
            if not (findings.elsewhere and is_elsewhere(error)):
                raise
            _keep(error, alias, written, findings)
            del here[str(error.data["key"])]


def _keep(error: ConfigError, alias: str, properties: Properties, findings: Findings) -> None:
    """Turn a refusal by key into a finding with file and line, if the key is written."""
    key = str(error.data.get("key", ""))
    written = properties.get(key)
    message = error.message.removeprefix(f"{key}: ")
    if written is None or not written.origin.line:
        findings.error(findings.missing(), f"{alias}.{key} {message}", error.hint)
    elif not findings.blames(written.origin):
        # The line may have another key (`A.ssl.truststore.location`) than the one the client sees.
        findings.unresolved(written.origin, ConfigError(message, hint=error.hint, **error.data))
