"""Resolve one flow `A->B` of a file into FlowSettings: MM2's keys by MM2's rules, and our own."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.config.file.origin import Findings, Properties, Property
from twinlog.config.file.providers import Providers
from twinlog.config.flow import precedence
from twinlog.config.flow.clusters import PRODUCT, cluster_settings
from twinlog.config.flow.known_keys import KEYS
from twinlog.config.flow.precedence import ROLES
from twinlog.config.flow.reader import Reader, ResolvedValue
from twinlog.config.flow.settings import CopySettings, FlowSettings
from twinlog.config.flow.tiers import read_tiers
from twinlog.config.flow.values import IS_TRUE, read_settings
from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.exposure import FETCH_SIZES, STEERING

STORAGE = "offset.storage."


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
        consumer = precedence.source_client(connector, "consumer")
        steering = {f"consumer.{key}": consumer[key] for key in STEERING if key in consumer}
        own = _derived(consumer) | precedence.own_settings(raw, connector)
        no_storage = {key: value for key, value in connector.items() if not key.startswith(STORAGE)}
        return cls(connector, worker, {**no_storage, **storage, **steering, **own})


def _derived(consumer: Properties) -> dict[str, Property]:
    """Let the relay fetch as much as the consumer may, unless our own key says otherwise."""
    return {ours: consumer[key].by(f"as {key}") for key, ours in FETCH_SIZES.items() if key in consumer}


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
        progress_on_source=_progress_on_source(raw, source, target, read),
    )
    _refuse_times(read, settings.copy)
    return ResolvedFlow(settings, tuple(read.trace.values()))


def _progress_on_source(raw: Properties, source: str, target: str, read: Reader) -> frozenset[str]:
    """Return the topics where flows into the source keep their progress, in this file or only in the other side's."""
    key = "offset.storage.topic"
    worker = precedence.worker_config(raw, target, source)[key]
    own = {it: value for it, value in raw.items() if it.endswith(f"->{source}.offsets.storage.topic")}
    written = own | ({key: worker} if worker.origin.line else {})
    return frozenset(filter(None, read.plain(written).values()))


def _refuse_times(read: Reader, settings: CopySettings) -> None:
    """Report the key that is written in the file; the other one may be a default, which is in no line."""
    if settings.transaction_timeout_ms > settings.transaction_ms:
        return
    commit, limit = "twinlog.transaction.ms", "twinlog.transaction.timeout.ms"
    if read.has(limit):
        message = f"is not above {commit} ({settings.transaction_ms}): no transaction could commit"
        read.refuse(limit, message, "raise it")
    else:
        message = f"is not below {limit} ({settings.transaction_timeout_ms}): no transaction could commit"
        read.refuse(commit, message, f"lower it, or raise {limit} too")


def _refuse_what_cannot_be_followed(read: Reader, source: str, target: str) -> None:
    for key, alias in (("source.cluster.alias", source), ("target.cluster.alias", target)):
        if read.text(key) != alias:
            read.refuse(key, f"contradicts the flow {source}->{target}", "remove it")
    for key in ("topic.filter.class", "group.filter.class", "config.property.filter.class"):
        if read.text(key) not in {KEYS[key].default, (KEYS[key].default or "").rpartition(".")[2]}:
            read.refuse(key, "Java filter classes cannot run here", "use the include and exclude lists")
    for key in ("transforms", "predicates"):
        if read.names(key):
            read.refuse(key, "twinlog copies batches unread and applies no transforms", "remove it")


def _ends(
    sources: _Sources, source: str, target: str, read: Reader
) -> tuple[ClusterSettings, ClusterSettings]:
    client_id = f"{source}->{target}|{PRODUCT}"
    upstream = {role: precedence.source_client(sources.connector, role) for role in ROLES}
    downstream = {role: precedence.target_client(sources.connector, role) for role in ROLES}
    downstream["producer"] = precedence.data_producer(sources.worker, sources.connector)
    return (
        cluster_settings(source, upstream, "consumer", client_id, read),
        cluster_settings(target, downstream, "producer", client_id, read),
    )
