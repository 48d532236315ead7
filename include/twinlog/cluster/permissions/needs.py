"""Compute which permissions a flow needs, the fewest ACLs that grant them, which it lacks, and the kafka-acls lines.

This module is pure: `needs` says what a flow needs, `twinlog.cluster.permissions.rights` finds out what the user has,
`judge` compares, `acl_lines` writes the commands. Operations have the protocol's names (READ, DESCRIBE_CONFIGS). The
operation that a request needs is from Kafka's own table (Kafka documentation, "Authorization and ACLs", list of
protocols).

docs/security.md shows the needs without those that others imply.  Tests compare the two, and try on real brokers that
the list is enough and that no entry can be left out (tests/support/least_privilege.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.config.flow.copying import PoisonPolicy, RecreatedPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.grouped import grouped


class Kind(StrEnum):
    """Kinds of resource, as kafka-acls spells its options."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """The resource of an ACL. The cluster itself has no name."""

    kind: Kind
    name: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that a flow needs on one resource of one cluster, and why.

    Without a `required` need the copy stops. Without another need only the function named by `why` stops. `prefix`, if
    set, is what to grant instead of the name, so that later topics are covered as well.
    """

    cluster: str
    resource: Resource
    operations: tuple[str, ...]
    why: str
    required: bool = True
    prefix: str = ""


BEFORE_2_8 = "IDEMPOTENT_WRITE"
"""Since Kafka 2.8, WRITE on any topic allows idempotent producing as well (KIP-679)."""

LONGEST_TOPIC = 249
"""Characters of a topic's name (org.apache.kafka.common.internals.Topic)."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights found on one resource; an operation in neither set is unknown."""

    granted: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """A need compared with the user's rights."""

    need: Need
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """The flow's names at this moment: topics and groups of the source, and topics that the target has."""

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()
    target_topics: frozenset[str] = field(default_factory=frozenset)


def needs(flow: FlowSettings, names: Names, transactional_prefix: str) -> tuple[Need, ...]:
    """Return everything the flow needs on both clusters, most important first."""
    return tuple(
        need
        for part in (
            _source_topics(flow, names),
            _remote_topics(flow, names),
            _state_topics(flow, names),
            _offset_syncs(flow),
            _beats_elsewhere(flow),
            _writing(flow, transactional_prefix),
            _groups(flow, names),
            _cluster_wide(flow),
            _writing_on_the_source(flow),
        )
        for need in part
    )


def _need(
    alias: str, resource: Resource, operations: str, why: str, *, required: bool = True, prefix: str = ""
) -> Need:
    return Need(alias, resource, tuple(operations.split()), why, required, prefix)


def recovery_needs(flow: FlowSettings, names: Names) -> tuple[Need, ...]:
    """Return what a failover and a failback need besides: a seat for each group, and topics for what is left behind."""
    need = partial(_need, flow.target.alias, required=False)
    seats = () if flow.sync_group_offsets else names.groups
    return (
        *(need(Resource(Kind.GROUP, seat), "READ DESCRIBE", "place it in a failover") for seat in seats),
        *tail_needs(flow, names.topics, names.target_topics, required=False),
    )


def tail_needs(
    flow: FlowSettings, topics: Iterable[str], target_topics: frozenset[str], *, required: bool = True
) -> Iterator[Need]:
    """Yield what the export needs of records that the source alone has, for these topics of the source.

    A name that is too long for a topic cannot be asked about.
    """
    prefix, why = (
        flow.tail_topic("").removesuffix(".internal"),
        f"export what {flow.source.alias} alone has after a failover",
    )
    need = partial(_need, flow.target.alias, why=why, required=required, prefix=prefix)
    for name in map(flow.tail_topic, topics):
        if len(name) <= LONGEST_TOPIC:
            yield need(Resource(Kind.TOPIC, name), f"{_create(name, target_topics)} WRITE DESCRIBE")


def judge(wanted: Iterable[Need], rights: Mapping[tuple[str, Resource], Rights]) -> tuple[Finding, ...]:
    """Compare each need with the rights found, by (cluster, resource)."""
    return tuple(_judged(need, rights.get((need.cluster, need.resource), Rights())) for need in wanted)


def acl_lines(findings: Iterable[Finding], clusters: Mapping[str, ClusterSettings]) -> tuple[str, ...]:
    """Write one kafka-acls command per cluster and set of missing operations; `clusters` is by alias."""
    grants: dict[tuple[str, Kind, str], dict[str, set[str]]] = {}
    for finding in findings:
        if finding.missing:
            need = finding.need
            pattern = "prefixed" if need.prefix else "literal"
            by_name = grants.setdefault((need.cluster, need.resource.kind, pattern), {})
            by_name.setdefault(need.prefix or need.resource.name, set()).update(finding.missing)
    return tuple(
        _acl_line(clusters[alias], kind, pattern, operations, sorted(names))
        for (alias, kind, pattern), by_name in grants.items()
        for operations, names in grouped(
            (tuple(sorted(them)), name) for name, them in by_name.items()
        ).items()
    )


def principal(cluster: ClusterSettings) -> str:
    """Return the principal that the cluster sees us as, by Kafka's default principal builder."""
    connection = cluster.connection
    if connection.protocol.sasl and connection.sasl is not None:
        return f"User:{connection.sasl.username}"
    if connection.protocol.tls and connection.tls.certificate_pem:
        from cryptography import x509

        certificate = x509.load_pem_x509_certificate(connection.tls.certificate_pem.encode())
        return f"User:{certificate.subject.rfc4514_string()}"
    return "User:ANONYMOUS"


def state_writers(flow: FlowSettings, acls: Iterable[AclBinding]) -> tuple[str, ...]:
    """Return the principals, other than our own, whom ACLs of the target let write to the flow's state.  Pure."""
    state = flow.ledger_topic, flow.offset_map_topic, flow.offsets_topic
    found = {
        acl.principal
        for acl in acls
        if acl.permission == "ALLOW" and acl.operation in {"ALL", "WRITE"} and any(map(acl.is_about, state))
    }
    return tuple(sorted(found - {principal(flow.target)}))


def _source_topics(flow: FlowSettings, names: Names) -> Iterator[Need]:
    for topic in names.topics:
        resource = Resource(Kind.TOPIC, topic)
        yield _need(flow.source.alias, resource, "DESCRIBE READ", "copy its records")
        yield _need(flow.source.alias, resource, "DESCRIBE_CONFIGS", "know its settings")


def _remote_topics(flow: FlowSettings, names: Names) -> Iterator[Need]:
    prefix = flow.policy.format_remote_topic(flow.source.alias, "")
    for topic in names.topics:
        remote = flow.remote_name(topic)
        shared = prefix if prefix and remote.startswith(prefix) else ""
        need = partial(_need, flow.target.alias, Resource(Kind.TOPIC, remote), prefix=shared)
        if flow.observed:
            yield need("READ DESCRIBE DESCRIBE_CONFIGS", "compare the copy")
            continue
        yield need(
            f"{_create(remote, names.target_topics)} WRITE DESCRIBE DESCRIBE_CONFIGS", "write the copy"
        )
        yield need("READ", "audit the copy, and see what is open in it", required=False)
        if flow.refresh_topics:
            yield need("ALTER", "add partitions when the source does")
        # `twinlog topics rebuild` needs the same, only while it runs.
        anew = flow.lifecycle.on_recreated is RecreatedPolicy.NEW_INCARNATION
        if anew or flow.lifecycle.delete_after_ms is not None:
            yield need("DELETE", "delete copies, as the configuration asks")
        if flow.sync_topic_configs:
            yield need("ALTER_CONFIGS", "sync topic configs", required=False)


def _create(topic: str, there: frozenset[str]) -> str:
    return "" if topic in there else "CREATE"


def _state_topics(flow: FlowSettings, names: Names) -> Iterator[Need]:
    reasons = {
        **({} if flow.observed else {flow.offsets_topic: "keep progress"}),
        flow.offset_map_topic: "keep the offset map",
        flow.ledger_topic: "keep the ledger",
    }
    if flow.copy.poison is PoisonPolicy.QUARANTINE:
        reasons[flow.quarantine_topic] = "write poisonous records aside"
    if flow.emit_heartbeats:
        reasons[flow.policy.heartbeats_topic()] = "write heartbeats"
    for topic, why in reasons.items():
        need = partial(_need, flow.target.alias, Resource(Kind.TOPIC, topic))
        beats = topic == flow.policy.heartbeats_topic()
        yield need(f"{_create(topic, names.target_topics)} {'' if beats else 'READ'} WRITE DESCRIBE", why)
        if beats:
            yield need("READ", "see who else writes heartbeats", required=False)
        yield need("DESCRIBE_CONFIGS", "see that its records are kept", required=False)
    if flow.emit_checkpoints:
        topic = flow.checkpoints_topic
        need = partial(_need, flow.target.alias, Resource(Kind.TOPIC, topic), required=False)
        yield need(f"{_create(topic, names.target_topics)} READ WRITE DESCRIBE", "write checkpoints")
        old = "delete checkpoints of groups that ended long ago"
        yield need("DESCRIBE_CONFIGS ALTER_CONFIGS DELETE", old)


def _offset_syncs(flow: FlowSettings) -> Iterator[Need]:
    if flow.emit_offset_syncs:
        on_source = flow.offset_syncs_topic_location == "source"
        host, other = (flow.source, flow.target) if on_source else (flow.target, flow.source)
        topic = Resource(Kind.TOPIC, flow.policy.offset_syncs_topic(other.alias))
        yield _need(host.alias, topic, "CREATE READ WRITE", "write offset syncs", required=False)


def _beats_elsewhere(flow: FlowSettings) -> Iterator[Need]:
    """Yield needs of heartbeats elsewhere: a reverse flow's on the source, a carried pair's on its own target."""
    back = flow.reverse_heartbeats
    beating = [] if back is None else [(back, "write heartbeats for the reverse flow")]
    beating += [(pair, f"beat for {pair.name}") for pair in flow.other_heartbeats]
    for pair, why in beating:
        topic = Resource(Kind.TOPIC, pair.policy.heartbeats_topic())
        yield _need(pair.target.alias, topic, "CREATE WRITE", why, required=False)


def _writing(flow: FlowSettings, transactional_prefix: str) -> Iterator[Need]:
    alias = flow.target.alias
    # Since 2.8 WRITE on any topic implies this one too (KIP-679).
    yield _need(alias, Resource(Kind.CLUSTER), "IDEMPOTENT_WRITE", "write without duplicates")
    resource = Resource(Kind.TRANSACTIONAL_ID, f"{transactional_prefix}check")
    yield _need(alias, resource, "DESCRIBE WRITE", "write in transactions", prefix=transactional_prefix)


def _groups(flow: FlowSettings, names: Names) -> Iterator[Need]:
    for group in names.groups:
        resource = Resource(Kind.GROUP, group)
        if flow.emit_checkpoints or flow.observed:
            why = "read its committed offsets"
            yield _need(flow.source.alias, resource, "DESCRIBE", why, required=False)
        if flow.sync_group_offsets:
            why = "sync its committed offsets"
            yield _need(flow.target.alias, resource, "READ DESCRIBE", why, required=False)


def _cluster_wide(flow: FlowSettings) -> Iterator[Need]:
    """Yield what the syncs of ACLs and quotas need: to read on the source, to change on the target."""
    cluster = Resource(Kind.CLUSTER)
    for wanted, read, seen, change, made in (
        (flow.sync_topic_acls, "DESCRIBE", "read the ACLs of topics", "ALTER", "sync the ACLs of topics"),
        (
            flow.metadata.quotas,
            "DESCRIBE_CONFIGS",
            "read client quotas",
            "ALTER_CONFIGS",
            "sync client quotas",
        ),
    ):
        if wanted:
            yield _need(flow.source.alias, cluster, read, seen, required=False)
            operations = read if flow.observed else f"{read} {change}"
            yield _need(flow.target.alias, cluster, operations, made, required=False)


def _writing_on_the_source(flow: FlowSettings) -> Iterator[Need]:
    """Yield the right to a producer id, which brokers give with WRITE on any topic, and managed ones may refuse."""
    if flow.emit_offset_syncs and flow.offset_syncs_topic_location == "source":
        alias, cluster = flow.source.alias, Resource(Kind.CLUSTER)
        yield _need(alias, cluster, BEFORE_2_8, "write offset syncs", required=False)


def _judged(need: Need, rights: Rights) -> Finding:
    told = rights.denied | rights.granted
    return Finding(
        need,
        tuple(operation for operation in need.operations if operation in rights.denied),
        tuple(operation for operation in need.operations if operation not in told),
    )


def _acl_line(
    cluster: ClusterSettings, kind: Kind, pattern: str, operations: Iterable[str], names: Iterable[str]
) -> str:
    words = ["kafka-acls.sh", "--bootstrap-server", cluster.bootstrap_servers]
    words += ["--command-config", "admin.properties"]
    words += ["--add", "--allow-principal", principal(cluster)]
    for operation in operations:
        words += ["--operation", "".join(part.capitalize() for part in operation.split("_"))]
    if kind is Kind.CLUSTER:
        return shlex.join([*words, "--cluster"])
    for name in names:
        words += [f"--{kind.value}", name]
    if pattern == "prefixed":
        words += ["--resource-pattern-type", pattern]
    return shlex.join(words)
