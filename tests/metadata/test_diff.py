"""A plan as people read it: its colours, and signs that say the same without them."""

from __future__ import annotations

import pytest

from twinlog.cli.render import OUTPUT, Diff, Output, show
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.config.flow.metadata import Profile
from twinlog.metadata.diff import plan_lines, result_lines
from twinlog.metadata.sync import MetadataResult
from twinlog.metadata.values import (
    AclChange,
    ChangeKind,
    ConfigChange,
    Drift,
    LeftOutAcl,
    MetadataPlan,
    QuotaChange,
)
from twinlog.topics.plan import Refusal

READ = AclBinding("TOPIC", "LITERAL", "A.orders", "User:jo", "*", "READ", "ALLOW")
CHANGES = (
    ConfigChange("A.orders", "segment.ms", None, "5"),
    ConfigChange("A.orders", "retention.ms", "7", None),
    QuotaChange(QuotaEntity.of({"user": "jo"}), "producer_byte_rate", 1.0, 2.0),
    AclChange(READ, add=True),
)
DRIFT = Drift(ChangeKind.TOPIC_CONFIG, "topic A.orders", "segment.bytes", "1", None, "kept")
REFUSED = Refusal("topic A.pay", "unauthorised", "may not be read", "grant DESCRIBE_CONFIGS")


def test_a_plan_reads_resource_by_resource() -> None:
    """What comes is green, what goes red, what changes cyan, what stays yellow; each line begins with its sign."""
    left_out = (LeftOutAcl("x", "waits for a promotion"),) * 2
    plan = MetadataPlan(
        CHANGES,
        (DRIFT,),
        (REFUSED,),
        left_out=left_out,
        notes=("B has no authorizer",),
        flow="A->B",
        profile=Profile.STANDBY,
    )
    assert [
        ("bold", "A->B, profile standby: 4 changes"),
        ("bold", "topic A.orders"),
        ("green", "  + segment.ms: 5"),
        ("red", "  - retention.ms: 7"),
        ("green", "  + User:jo READ: ALLOW"),
        ("bold", "user jo"),
        ("cyan", "  ~ producer_byte_rate: 1 -> 2"),
        ("bold", "differences that are left as they are"),
        ("yellow", "  ! topic A.orders: segment.bytes is unset, source 1; kept"),
        ("bold", "refused"),
        ("bold red", "  x topic A.pay: may not be read; grant DESCRIBE_CONFIGS"),
        ("dim", "2 ACLs of the source left out: waits for a promotion"),
        ("dim", "note: B has no authorizer"),
    ] == list(plan_lines(plan))


def test_a_result_says_what_was_made() -> None:
    """In the same form."""
    result = MetadataResult("A->B", Profile.PROMOTED, CHANGES[:1], (), (), ())
    assert [
        ("bold", "A->B, profile promoted: 1 change made"),
        ("bold", "topic A.orders"),
        ("green", "  + segment.ms: 5"),
    ] == list(result_lines(result))


def test_names_and_values_of_a_cluster_make_no_lines_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A principal, a config or an entity may hold anything: here it is what a plan would say."""
    forged = "x\n  + User:eve READ: ALLOW\x1b[2J"
    changes = (
        ConfigChange("A.orders", "cleanup.policy", forged, forged + "\u202e"),
        QuotaChange(QuotaEntity.of({"user": forged}), "producer_byte_rate", None, 2.0),
        AclChange(AclBinding("GROUP", "LITERAL", forged, forged, "*", "READ", "ALLOW"), add=True),
    )
    refused = Refusal(forged, "unauthorised", forged, forged)
    drift = Drift(ChangeKind.TOPIC_CONFIG, forged, forged, forged, forged, forged)
    plan = MetadataPlan(changes, (drift,), (refused,), notes=(forged,), flow="A->B", profile=Profile.STANDBY)
    before = OUTPUT.set(Output.TABLE)
    show(None, [Diff(plan_lines(plan))])
    OUTPUT.reset(before)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.isprintable() or line.startswith("  + User:eve")] == []
    assert 0 < sum("\\x0a  + User:eve READ: ALLOW\\x1b[2J" in line for line in lines)
