"""The metadata sync on clusters in memory: plan, apply, remember; saved plans, applied later, once, undrifted."""

import json
from dataclasses import replace

import pytest

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.config.flow.metadata import MetadataSettings, Profile
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, UsageError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.lifecycle import sync_topics
from twinlog.metadata import apply_plan, sync
from twinlog.metadata.plan_file import digest_of, parse_plan, plan_document
from twinlog.metadata.subjects import Subject
from twinlog.state.ledger import read_ledger, write_ledger

READ = AclBinding("TOPIC", "LITERAL", "A.orders", "User:jo", "*", "READ", "ALLOW")
JO = QuotaEntity.of({"user": "jo"})


@pytest.fixture
def everything(flow, clusters, source, target):
    """A->B with one topic copied, and something of each kind to sync."""
    flow = replace(
        flow,
        metadata=MetadataSettings(quotas=True),
    )
    source.add_topic("orders", configs={"retention.ms": "5"})
    sync_topics.run(flow, clusters)
    source.topics["orders"].configs |= {"retention.ms": "6", "cleanup.policy": "compact"}
    source.acls = {
        replace(READ, name="orders", operation="ALL"),
        AclBinding("TOPIC", "LITERAL", "orders", "User:eve", "*", "READ", "DENY"),
    }
    source.quotas = {JO: {"producer_byte_rate": 5.0}}
    target.calls.clear()
    return flow


def rows(changes) -> list[tuple[str, str, str | None]]:
    return [(it.row.resource, it.row.name, it.row.after) for it in changes]


ALL_ROWS = [
    ("topic A.orders", "cleanup.policy", "compact"),
    ("topic A.orders", "retention.ms", "6"),
    ("topic A.orders", "User:eve READ", "DENY"),
    ("topic A.orders", "User:jo READ", "ALLOW"),
    ("user jo", "producer_byte_rate", "5"),
]


def test_a_plan_changes_nothing_and_a_run_makes_exactly_it(everything, clusters, target):
    """The second run finds nothing to do; what creation had set is known to be twinlog's."""
    plan = sync.make_plan(everything, clusters)
    assert ALL_ROWS == rows(plan.changes)
    assert [] == target.calls
    result = sync.run(everything, clusters)
    assert result.complete
    assert plan.changes == result.applied
    assert {"retention.ms": "6", "cleanup.policy": "compact"} == target.topics["A.orders"].configs
    assert {JO: {"producer_byte_rate": 5.0}} == target.quotas
    again = sync.run(everything, clusters)
    assert ((), (), ()) == (again.applied, again.refused, again.drift)


def test_what_the_source_takes_back_is_taken_back(everything, clusters, source, target):
    """Configs, ACLs and quotas; a stranger's ACL stays."""
    theirs = replace(READ, principal="User:ann")
    target.acls = {theirs}
    sync.run(everything, clusters)
    source.topics["orders"].configs.clear()
    source.acls = {AclBinding("GROUP", "LITERAL", "g", "User:jo", "*", "READ", "ALLOW")}
    source.quotas = {}
    sync.run(everything, clusters)
    assert {} == target.topics["A.orders"].configs
    assert {theirs, *source.acls} == target.acls
    assert {} == target.describe_quotas()


def test_one_bad_item_does_not_stop_the_rest(everything, clusters, target):
    """Each refusal is named and its neighbour is done; the refused are not remembered as given."""
    target.refuse("alter_topic_configs", "cleanup.policy", ClusterRefused("bad value", code="refused"))
    target.deny("create_acls", READ, ClusterRefused("no", hint="grant ALTER", code="unauthorised"))
    result = sync.run(everything, clusters)
    assert not result.complete
    assert [
        ("topic A.orders: cleanup.policy", "bad value"),
        ("topic A.orders: User:jo READ", "no"),
    ] == [(it.name, it.message) for it in result.refused]
    assert {"retention.ms": "6"} == target.topics["A.orders"].configs
    memory = read_ledger(everything, target).metadata
    assert [["User:eve"]] == [[grant.principal for grant in record.grants] for record in memory.acls]


def test_no_allow_comes_where_its_deny_was_refused(everything, clusters, target):
    """A DENY is never missing, not even when the target does not take it."""
    deny = AclBinding("TOPIC", "LITERAL", "A.orders", "User:eve", "*", "READ", "DENY")
    target.deny("create_acls", deny, ClusterRefused("no", code="refused"))
    result = sync.run(everything, clusters)
    assert set() == target.acls
    assert ["refused", "held-back"] == [it.code for it in result.refused]


def test_acls_are_remembered_before_they_are_made(everything, clusters, target, monkeypatch):
    """A crash in between leaves no ACL that nobody would ever revoke."""

    def crash(bindings):
        raise ClusterUnreachable("gone")

    monkeypatch.setattr(target, "create_acls", crash)
    with pytest.raises(ClusterUnreachable):
        sync.run(everything, clusters)
    [record] = read_ledger(everything, target).metadata.acls
    assert ["User:eve", "User:jo"] == [grant.principal for grant in record.grants]


@pytest.mark.parametrize("side", ["source", "target"])
def test_no_authorizer_is_said_once(everything, clusters, source, target, side):
    """It is no failure: everything else is synced."""
    {"source": source, "target": target}[side].acls = None
    result = sync.run(everything, clusters)
    assert result.complete
    assert ("there is no authorizer, so no ACLs are synced",) == result.notes
    assert [row for row in ALL_ROWS if "READ" not in row[1]] == rows(result.applied)


def test_a_part_that_may_not_be_read_does_not_stop_the_others(everything, clusters, source):
    """It is refused as a whole, and nothing of it is revoked."""
    sync.run(everything, clusters)
    source.deny("describe_acls", "", ClusterRefused("no", hint="grant DESCRIBE", code="unauthorised"))
    source.topics["orders"].configs["retention.ms"] = "7"
    result = sync.run(everything, clusters)
    assert [("ACLs of A", "unauthorised", "grant DESCRIBE")] == [
        (it.name, it.code, it.hint) for it in result.refused
    ]
    assert [("topic A.orders", "retention.ms", "7")] == rows(result.applied)


def test_flags_decide_what_is_synced(everything, clusters):
    """MM2's two, and ours."""
    quiet = replace(everything, sync_topic_configs=False, sync_topic_acls=False, metadata=MetadataSettings())
    assert () == sync.make_plan(quiet, clusters).changes
    only = sync.make_plan(everything, clusters, frozenset({Subject.ACLS, Subject.QUOTAS}))
    assert ALL_ROWS[2:5] == rows(only.changes)
    mm2 = replace(everything, metadata=replace(everything.metadata, profile=Profile.MM2))
    assert ALL_ROWS[:4] == rows(sync.make_plan(mm2, clusters).changes)


@pytest.mark.parametrize("phase", [FlowPhase.FAILING_OVER, FlowPhase.PROMOTED])
def test_a_promoted_flow_is_not_made_a_standby_again(everything, clusters, target, phase):
    """Its scheduled sync would take WRITE from those who now work there."""
    write_ledger(everything, target, [FlowState(phase, 1, "jo", "disaster")])
    with pytest.raises(TerminalError, match="would take rights from those who now work on B") as caught:
        sync.run(everything, clusters)
    assert "promoted" == caught.value.code
    promoted = apply_plan.with_profile(everything, Profile.PROMOTED)
    assert sync.run(promoted, clusters).complete


def test_without_a_ledger_nothing_is_changed(everything, clusters, target):
    """What could not be remembered could not be taken back."""
    del target.topics[everything.ledger_topic]
    with pytest.raises(TerminalError, match="A->B has never run") as caught:
        sync.run(everything, clusters)
    assert "twinlog run --once" in caught.value.hint
    assert [] == target.calls


# saved plans


def saved_text(flow, clusters, at_ms: int = 1_700_000_000_000) -> str:
    plan = sync.make_plan(flow, clusters)
    return json.dumps(plan_document(plan, clusters.source.cluster_id(), clusters.target.cluster_id(), at_ms))


def apply_text(flow, clusters, text: str):
    return apply_plan.run(flow, clusters, parse_plan(text, "plan.json"))


def test_a_saved_plan_is_applied_as_it_was_approved(everything, clusters, target):
    """Every kind of change survives the file; no secret is in it."""
    text = saved_text(everything, clusters)
    assert '"pw"' not in text
    assert ALL_ROWS == rows(parse_plan(text, "plan.json").changes)
    assert ALL_ROWS == rows(apply_text(everything, clusters, text).applied)
    assert {"retention.ms": "6", "cleanup.policy": "compact"} == target.topics["A.orders"].configs


def test_an_acl_made_by_hand_before_an_approved_plan_is_applied_stays_theirs(
    everything, clusters, source, target
):
    """Somebody was quicker than the approval: it is not remembered as ours, so nobody revokes it."""
    text = saved_text(everything, clusters)
    target.acls |= {READ}
    result = apply_text(everything, clusters, text)
    assert result.complete
    assert ("topic A.orders", "User:jo READ", "ALLOW") not in rows(result.applied)
    source.acls = {AclBinding("GROUP", "LITERAL", "g", "User:jo", "*", "READ", "ALLOW")}
    sync.run(everything, clusters)
    assert {READ, *source.acls} == target.acls


def test_a_saved_plan_is_applied_once(everything, clusters):
    """The second time says when the first was."""
    text = saved_text(everything, clusters)
    apply_text(everything, clusters, text)
    with pytest.raises(TerminalError, match="applied already, on 20") as caught:
        apply_text(everything, clusters, text)
    assert "plan-applied" == caught.value.code


def test_the_same_changes_saved_again_are_another_plan(everything, clusters):
    """A rehearsal takes nothing away from the day itself."""
    texts = [saved_text(everything, clusters, at_ms) for at_ms in (1, 2)]
    plans = [parse_plan(text, "plan.json") for text in texts]
    assert plans[0].changes == plans[1].changes
    assert plans[0].digest != plans[1].digest


def test_a_plan_that_was_refused_in_part_may_be_applied_again(everything, clusters, target):
    """When what stood in its way is gone: what was done stays done."""
    text = saved_text(everything, clusters)
    refusal = ClusterRefused("no", code="unauthorised")
    target.deny("create_acls", READ, refusal)
    assert not apply_text(everything, clusters, text).complete
    target._denied.clear()
    assert apply_text(everything, clusters, text).complete
    assert READ in target.acls


@pytest.mark.parametrize("change", ["target", "source", "acl"])
def test_a_plan_is_refused_when_the_state_drifted(everything, clusters, source, target, change):
    """What changed is named; nothing at all is applied."""
    text = saved_text(everything, clusters)
    match change:
        case "target":
            target.topics["A.orders"].configs["retention.ms"] = "99"
            reason = "topic A.orders: retention.ms is 99 by now, not 5"
        case "source":
            source.topics["orders"].configs["retention.ms"] = "99"
            reason = "topic A.orders: retention.ms would not be set to 6 any more"
        case _:
            source.acls = {it for it in source.acls if it.permission == "DENY"}
            reason = "topic A.orders: User:jo READ would not be set to ALLOW any more"
    with pytest.raises(TerminalError, match=reason) as caught:
        apply_text(everything, clusters, text)
    assert "plan-drifted" == caught.value.code
    assert set() == target.acls


def test_news_that_the_plan_does_not_touch_is_no_drift(everything, clusters, source, target):
    """Another topic, or a change that somebody made by hand meanwhile just as planned."""
    text = saved_text(everything, clusters)
    source.add_topic("later")
    target.add_topic("A.later")
    source.topics["later"].configs["retention.ms"] = "1"
    target.topics["A.orders"].configs["retention.ms"] = "6"
    assert apply_text(everything, clusters, text).complete


def test_an_approved_promotion_needs_no_source(everything, clusters, source, target, monkeypatch):
    """It is what the approval was for; any other plan waits until the source answers."""
    promotion = saved_text(apply_plan.with_profile(everything, Profile.PROMOTED), clusters)
    usual = saved_text(everything, clusters)

    def gone():
        raise ClusterUnreachable("A does not answer", cluster="A")

    monkeypatch.setattr(source, "cluster_id", gone)
    with pytest.raises(ClusterUnreachable):
        apply_text(everything, clusters, usual)
    assert ("A does not answer: applied as approved",) == apply_text(everything, clusters, promotion).notes
    assert replace(READ, operation="ALL") in target.acls


def test_a_plan_is_for_its_own_clusters(everything, clusters, target):
    """Not for another flow, nor for a cluster that took the address over."""
    text = saved_text(everything, clusters)
    other = replace(everything, source=replace(everything.source, alias="C"))
    with pytest.raises(UsageError, match="is for flow A->B, not C->B"):
        apply_text(other, clusters, text)
    target._cluster_id = "another"
    with pytest.raises(TerminalError, match="the plan is for cluster cluster-B; B is another"):
        apply_text(everything, clusters, text)


def edited(text: str, *, resealed: bool = False) -> str:
    document = json.loads(text)
    document["changes"][0]["item"]["after"] = "delete"
    if resealed:
        document["digest"] = digest_of(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (edited, "plan-file", "was edited after it was saved"),
        (lambda text: edited(text, resealed=True), "plan-file", "no saved metadata plan"),
        (lambda text: text[:100], "plan-file", "it is not JSON"),
        (lambda text: "[]", "plan-file", "its format is not metadata-plan-1"),
        (lambda text: text.replace("plan-1", "plan-2"), "plan-file", "its format is not metadata-plan-1"),
    ],
)
def test_a_spoilt_file_is_refused_with_what_is_wrong(everything, clusters, target, spoil, code, words):
    """An edit, an edit with a new digest that shows one thing and does another, half a file, no plan at all."""
    with pytest.raises(UsageError, match=words) as caught:
        apply_text(everything, clusters, spoil(saved_text(everything, clusters)))
    assert (code, "plan.json") == (caught.value.code, caught.value.data["file"])
    assert [] == target.calls


def test_spaces_are_no_edit(everything, clusters):
    """A pretty-printer may have been at the file."""
    text = json.dumps(json.loads(saved_text(everything, clusters)), indent=4, sort_keys=True)
    assert apply_text(everything, clusters, text).complete


def test_a_named_topic_gets_its_configs_and_nobody_a_right(everything, clusters, source) -> None:
    """An ALLOW of one topic without the DENY of another would widen what a user may do."""
    source.add_topic("payments", configs={"retention.ms": "7"})
    sync_topics.run(everything, clusters)
    source.topics["payments"].configs["retention.ms"] = "8"
    plan = sync.make_plan(everything, clusters, topics=frozenset({"payments"}))
    assert [("topic A.payments", "retention.ms", "8")] == rows(plan.changes)
    assert "only configs of the topics named were compared: no ACL, no quota" in plan.notes


def test_a_misspelt_topic_is_refused_and_not_found_equal(everything, clusters) -> None:
    """0 changes would say that its configs agree."""
    with pytest.raises(UsageError, match="A->B replicates no topic order"):
        sync.make_plan(everything, clusters, topics=frozenset({"order"}))
    without = replace(everything, sync_topic_configs=False)
    with pytest.raises(UsageError, match=r"sync\.topic\.configs\.enabled is false"):
        sync.make_plan(without, clusters, topics=frozenset({"orders"}))
