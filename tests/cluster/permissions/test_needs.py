"""What a flow needs, what is missing of it, and the command that grants it."""

from dataclasses import replace

import pytest

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.permissions.needs import (
    Finding,
    Kind,
    Names,
    Need,
    Resource,
    Rights,
    acl_lines,
    judge,
    needs,
    principal,
    state_writers,
)
from twinlog.config.file.providers import Secret
from twinlog.config.flow.copying import CopySettings, PoisonPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
    SaslSettings,
    SecurityProtocol,
)
from twinlog.policy.replication import IdentityReplicationPolicy


def _cluster(alias: str, user: str = "replicator") -> ClusterSettings:
    connection = ConnectionSettings(
        alias,
        ((f"{alias.lower()}1", 9092),),
        SecurityProtocol.SASL_PLAINTEXT,
        sasl=SaslSettings("SCRAM-SHA-512", user, Secret("s")),
    )
    return ClusterSettings(alias, f"{alias.lower()}1:9092", connection)


FLOW = FlowSettings(_cluster("A"), _cluster("B"), sync_topic_acls=False, emit_checkpoints=False)
LANES = "twinlog.A->B."


def _wanted(flow: FlowSettings, names: Names) -> dict[tuple[str, str, str], set[str]]:
    """Required operations by cluster, kind and name."""
    wanted: dict[tuple[str, str, str], set[str]] = {}
    for need in needs(flow, names, LANES):
        if need.required:
            key = (need.cluster, need.resource.kind.value, need.resource.name)
            wanted.setdefault(key, set()).update(need.operations)
    return wanted


def test_a_flow_reads_its_source_and_never_writes_there() -> None:
    """A read-only user on the source is enough."""
    on_source = {key: value for key, value in _wanted(FLOW, Names(("orders",))).items() if key[0] == "A"}
    assert on_source == {("A", "topic", "orders"): {"DESCRIBE", "READ", "DESCRIBE_CONFIGS"}}


def test_a_carried_pair_needs_its_own_targets_heartbeats() -> None:
    """On a cluster that is no end of the flow, and not required: the copy goes on without."""
    pair = replace(FLOW, target=_cluster("C"), enabled=False)
    asked = [
        need
        for need in needs(replace(FLOW, other_heartbeats=(pair,)), Names(("orders",)), LANES)
        if need.cluster == "C"
    ]
    topic = Resource(Kind.TOPIC, "heartbeats")
    assert [Need("C", topic, ("CREATE", "WRITE"), "beat for A->C", required=False)] == asked


def test_what_exists_need_not_be_created() -> None:
    """CREATE is asked for missing topics only."""
    wanted = _wanted(FLOW, Names(("orders", "new"), target_topics=frozenset({"A.orders", "heartbeats"})))
    assert wanted["B", "topic", "A.orders"] == {"WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER"}
    assert wanted["B", "topic", "A.new"] == {"WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "CREATE"}
    assert wanted["B", "topic", "heartbeats"] == {"WRITE", "DESCRIBE"}


def test_state_topics_and_transactions_are_needed_on_the_target() -> None:
    """Progress, map, ledger, heartbeats, and a transactional id."""
    wanted = set(_wanted(FLOW, Names(())))
    assert wanted == {
        ("B", "topic", "mm2-offsets.A.internal"),
        ("B", "topic", "mm2-offset-map.A.internal"),
        ("B", "topic", "mm2-ledger.A.internal"),
        ("B", "topic", "heartbeats"),
        ("B", "cluster", ""),
        ("B", "transactional-id", "twinlog.A->B.check"),
    }


def test_the_quarantine_topic_is_needed_under_quarantine_only() -> None:
    """Poisonous records are written aside there; under `fail` nobody touches it."""
    aside = ("B", "topic", "mm2-quarantine.A.internal")
    flow = replace(FLOW, copy=CopySettings(poison=PoisonPolicy.QUARANTINE))
    assert aside not in _wanted(FLOW, Names(()))
    assert _wanted(flow, Names(()))[aside] == {"CREATE", "READ", "WRITE", "DESCRIBE"}


def test_what_only_a_sync_needs_does_not_stop_the_copy() -> None:
    """ACL, config and group sync are named, but not required."""
    flow = replace(FLOW, sync_topic_acls=True, emit_checkpoints=True, sync_group_offsets=True)
    optional = {
        (need.cluster, need.resource.kind.value, need.resource.name, need.operations)
        for need in needs(flow, Names(("t",), ("g",)), LANES)
        if not need.required
    }
    assert optional == {
        ("B", "topic", "A.t", ("READ",)),
        ("B", "topic", "A.t", ("ALTER_CONFIGS",)),
        ("A", "topic", "mm2-offset-syncs.B.internal", ("CREATE", "READ", "WRITE")),
        ("B", "topic", "mm2-offsets.A.internal", ("DESCRIBE_CONFIGS",)),
        ("B", "topic", "mm2-offset-map.A.internal", ("DESCRIBE_CONFIGS",)),
        ("B", "topic", "mm2-ledger.A.internal", ("DESCRIBE_CONFIGS",)),
        ("B", "topic", "heartbeats", ("READ",)),
        ("B", "topic", "heartbeats", ("DESCRIBE_CONFIGS",)),
        ("B", "topic", "A.checkpoints.internal", ("CREATE", "READ", "WRITE", "DESCRIBE")),
        ("B", "topic", "A.checkpoints.internal", ("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DELETE")),
        ("A", "group", "g", ("DESCRIBE",)),
        ("B", "group", "g", ("READ", "DESCRIBE")),
        ("A", "cluster", "", ("DESCRIBE",)),
        ("A", "cluster", "", ("IDEMPOTENT_WRITE",)),
        ("B", "cluster", "", ("DESCRIBE", "ALTER")),
    }


def test_denied_is_missing_and_unasked_is_unknown() -> None:
    """What could not be found out is not reported as missing."""
    need = Need("B", Resource(Kind.TOPIC, "t"), ("WRITE", "READ", "DESCRIBE"), "test")
    rights = {("B", need.resource): Rights(frozenset({"DESCRIBE"}), frozenset({"WRITE"}))}
    assert judge([need], rights) == (Finding(need, ("WRITE",), ("READ",)),)
    assert judge([need], {}) == (Finding(need, (), ("WRITE", "READ", "DESCRIBE")),)


def test_one_line_grants_every_remote_topic() -> None:
    """Remote topics share a prefix, so one prefixed ACL covers those still to come."""
    findings = judge(
        [one for one in needs(FLOW, Names(("a", "b")), LANES) if one.resource.name.startswith("A.")],
        {
            ("B", Resource(Kind.TOPIC, name)): Rights(denied=frozenset({"WRITE", "ALTER"}))
            for name in ("A.a", "A.b")
        },
    )
    assert acl_lines(findings, {"B": FLOW.target}) == (
        "kafka-acls.sh --bootstrap-server b1:9092 --command-config admin.properties --add"
        " --allow-principal User:replicator --operation Alter --operation Write"
        " --topic A. --resource-pattern-type prefixed",
    )


def test_lines_quote_what_a_shell_would_eat() -> None:
    """A transactional id with an arrow, the cluster without a name, a user with a blank."""
    findings = judge(
        [
            Need("B", Resource(Kind.CLUSTER), ("IDEMPOTENT_WRITE",), "test"),
            Need("B", Resource(Kind.TRANSACTIONAL_ID, "t.A->B.check"), ("WRITE",), "test", prefix="t.A->B."),
        ],
        {
            ("B", Resource(Kind.CLUSTER)): Rights(denied=frozenset({"IDEMPOTENT_WRITE"})),
            ("B", Resource(Kind.TRANSACTIONAL_ID, "t.A->B.check")): Rights(denied=frozenset({"WRITE"})),
        },
    )
    head = (
        "kafka-acls.sh --bootstrap-server b1:9092 --command-config admin.properties --add"
        " --allow-principal 'User:dr team'"
    )
    assert acl_lines(findings, {"B": _cluster("B", "dr team")}) == (
        f"{head} --operation IdempotentWrite --cluster",
        f"{head} --operation Write --transactional-id 't.A->B.' --resource-pattern-type prefixed",
    )


def test_unchanged_names_are_granted_one_by_one() -> None:
    """Under the identity policy remote topics share no prefix."""
    flow = replace(FLOW, policy=IdentityReplicationPolicy())
    prefixes = {
        need.prefix for need in needs(flow, Names(("a", "b")), LANES) if need.resource.kind is Kind.TOPIC
    }
    assert prefixes == {""}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [(SecurityProtocol.SASL_SSL, "User:replicator"), (SecurityProtocol.PLAINTEXT, "User:ANONYMOUS")],
)
def test_the_principal_is_the_one_brokers_see(protocol: SecurityProtocol, expected: str) -> None:
    """SASL wins over TLS; an open listener knows nobody."""
    cluster = _cluster("B")
    assert principal(replace(cluster, connection=replace(cluster.connection, protocol=protocol))) == expected


def test_others_who_may_write_to_the_flows_state_are_named() -> None:
    """By name, prefix or star; not the flow's own user, nor who may only read."""

    def acl(name: str, user: str, operation: str, pattern: str = "LITERAL") -> AclBinding:
        return AclBinding("TOPIC", pattern, name, user, "*", operation, "ALLOW")

    acls = [
        acl(FLOW.ledger_topic, "User:mallory", "WRITE"),
        acl("mm2-", "User:eve", "ALL", "PREFIXED"),
        acl("*", "User:reader", "READ"),
        acl("*", principal(FLOW.target), "ALL"),
        acl("payroll", "User:ann", "WRITE"),
    ]
    assert ("User:eve", "User:mallory") == state_writers(FLOW, acls)
