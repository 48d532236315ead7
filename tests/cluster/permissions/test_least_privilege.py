"""docs/security.md shows exactly the rights that the code asks for."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

from least_privilege import Grant, grants

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.permissions.needs import Kind, Names, Need, Resource, needs
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.lane.fence.fence import transactional_id

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def everything_on() -> FlowSettings:
    """A->B of topic `orders` and group `billing`, with all that needs a right switched on."""
    ends = [
        ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),))) for alias in "AB"
    ]
    flow = FlowSettings(*ends, sync_group_offsets=True)
    back = FlowSettings(ends[1], ends[0], enabled=False)
    return replace(flow, reverse_heartbeats=back, metadata=MetadataSettings(quotas=True))


def table() -> str:
    """The table of the page, as the code has it."""
    flow = everything_on()
    prefix = transactional_id(flow.name, 0).removesuffix("0")
    wanted = grants(needs(flow, Names(("orders",), ("billing",)), prefix))
    alike = groupby(wanted, lambda it: (it.cluster, _resource(it), it.why, it.required))
    rows = [
        "| cluster | resource | operations | needed to | to copy |",
        "|---|---|---|---|---|",
        *(
            f"| {cluster} | {resource} | {', '.join(it.operation for it in of)} | {why} |"
            f" {'needed' if required else ''} |"
            for (cluster, resource, why, required), of in alike
        ),
    ]
    return "\n".join(rows)


def _resource(grant: Grant) -> str:
    if grant.kind is Kind.CLUSTER:
        return "cluster"
    return f"{grant.kind.value} `{grant.name}`" + (" (prefixed)" if grant.prefixed else "")


def test_the_page_shows_what_the_code_asks_for() -> None:
    """When this fails, put the table that it prints into docs/security.md."""
    assert table() in PAGE.read_text(), f"docs/security.md should hold:\n\n{table()}\n"


def test_what_another_operation_implies_is_not_granted() -> None:
    """DESCRIBE comes with READ, DESCRIBE_CONFIGS with ALTER_CONFIGS, IDEMPOTENT_WRITE with WRITE since 2.8."""
    topic = Resource(Kind.TOPIC, "t")
    wanted = [
        Need("A", topic, ("DESCRIBE", "READ"), "read"),
        Need("A", topic, ("DESCRIBE_CONFIGS",), "know"),
        Need("A", topic, ("ALTER_CONFIGS",), "sync", required=False),
        Need("A", Resource(Kind.CLUSTER), ("IDEMPOTENT_WRITE", "DESCRIBE"), "write"),
    ]
    assert [
        ("topic", "t", "READ"),
        ("topic", "t", "ALTER_CONFIGS"),
        ("cluster", "kafka-cluster", "DESCRIBE"),
    ] == [(it.kind.value, it.name, it.operation) for it in grants(wanted)]


def test_a_grant_is_an_acl() -> None:
    """As Kafka takes it."""
    grant = Grant("B", Kind.TRANSACTIONAL_ID, "twinlog-A->B-", True, "WRITE", "write", True)
    assert AclBinding(
        "TRANSACTIONAL_ID", "PREFIXED", "twinlog-A->B-", "User:jo", "*", "WRITE", "ALLOW"
    ) == grant.binding("User:jo")
