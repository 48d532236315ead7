"""Which ACLs of the source come to the target, under which profile, and which are taken back."""

from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.config.flow.metadata import MetadataSettings, Profile
from twinlog.metadata.acl_plan import AclScope, AclState, bindings_of, plan_acls, records_of
from twinlog.metadata.values import AclChange
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter

TOPICS = ("orders", "orders-late", "pay")


def acl(text: str) -> AclBinding:
    """`TOPIC orders jo READ ALLOW`; a name that ends in `..` is a prefix."""
    kind, name, user, operation, permission = text.split()
    pattern = "PREFIXED" if name.endswith("..") else "LITERAL"
    principal = user if ":" in user else f"User:{user}"
    return AclBinding(kind, pattern, name.removesuffix(".."), principal, "*", operation, permission)


def acls(*texts: str) -> set[AclBinding]:
    return {acl(text) for text in texts}


def planned(flow, profile: str, source: set, target: set = frozenset(), ours: set = frozenset()):
    """A plan; `ours` are ACLs twinlog added before."""
    flow = replace(flow, metadata=MetadataSettings(profile=Profile(profile)))
    state = AclState(tuple(sorted(source)), tuple(sorted(target)), TOPICS)
    return plan_acls(flow, state, records_of(ours, 0))


def added(plan) -> set[AclBinding]:
    return {it.binding for it in plan.changes if it.add}


def removed(plan) -> set[AclBinding]:
    return {it.binding for it in plan.changes if not it.add}


@pytest.mark.parametrize(
    ("profile", "source", "expected"),
    [
        ("mm2", "TOPIC orders jo ALL ALLOW", "TOPIC A.orders jo READ ALLOW"),
        ("mm2", "TOPIC orders jo WRITE ALLOW", None),
        ("mm2", "TOPIC orders jo ALL DENY", "TOPIC A.orders jo ALL DENY"),
        ("mm2", "TOPIC orders jo DELETE ALLOW", "TOPIC A.orders jo DELETE ALLOW"),
        ("mm2", "TOPIC * jo READ ALLOW", "TOPIC A.* jo READ ALLOW"),
        ("mm2", "TOPIC ord.. jo READ ALLOW", None),
        ("mm2", "GROUP g jo READ ALLOW", None),
        ("mm2", "TOPIC __consumer_offsets jo READ ALLOW", None),
        ("standby", "TOPIC orders jo ALL ALLOW", "TOPIC A.orders jo READ ALLOW"),
        ("standby", "TOPIC orders jo READ ALLOW", "TOPIC A.orders jo READ ALLOW"),
        ("standby", "TOPIC orders jo DESCRIBE_CONFIGS ALLOW", "TOPIC A.orders jo DESCRIBE_CONFIGS ALLOW"),
        ("standby", "TOPIC orders jo WRITE ALLOW", None),
        ("standby", "TOPIC orders jo ALTER ALLOW", None),
        ("standby", "TOPIC orders jo WRITE DENY", "TOPIC A.orders jo WRITE DENY"),
        ("standby", "TOPIC orders.. jo READ ALLOW", "TOPIC A.orders.. jo READ ALLOW"),
        ("standby", "TOPIC other.. jo READ ALLOW", None),
        ("standby", "TOPIC other.. jo READ DENY", "TOPIC A.other.. jo READ DENY"),
        ("standby", "TOPIC B.. jo READ DENY", "TOPIC A.B.. jo READ DENY"),
        ("standby", "TOPIC B... jo READ DENY", None),
        ("standby", "TOPIC B.pay.. jo READ DENY", None),
        ("standby", "TOPIC B.A... jo READ DENY", None),
        ("standby", "TOPIC * jo READ ALLOW", "TOPIC A... jo READ ALLOW"),
        ("standby", "TOPIC * jo ALL DENY", "TOPIC A... jo ALL DENY"),
        ("standby", "TOPIC mm2-ledger.X.internal jo READ ALLOW", None),
        ("standby", "GROUP g jo ALL ALLOW", "GROUP g jo READ ALLOW"),
        ("standby", "GROUP g.. jo READ ALLOW", "GROUP g.. jo READ ALLOW"),
        ("standby", "GROUP g jo DELETE ALLOW", None),
        ("standby", "GROUP connect-x jo READ ALLOW", None),
        ("standby", "GROUP connect-x jo READ DENY", "GROUP connect-x jo READ DENY"),
        ("standby", "TRANSACTIONAL_ID tx jo WRITE ALLOW", None),
        ("standby", "TRANSACTIONAL_ID tx jo WRITE DENY", "TRANSACTIONAL_ID tx jo WRITE DENY"),
        ("standby", "CLUSTER kafka-cluster jo IDEMPOTENT_WRITE ALLOW", None),
        ("standby", "CLUSTER kafka-cluster jo ALL DENY", "CLUSTER kafka-cluster jo IDEMPOTENT_WRITE DENY"),
        ("promoted", "TOPIC orders jo ALL ALLOW", "TOPIC A.orders jo ALL ALLOW"),
        ("promoted", "TOPIC orders jo WRITE ALLOW", "TOPIC A.orders jo WRITE ALLOW"),
        ("promoted", "TOPIC orders.. jo WRITE ALLOW", "TOPIC A.orders.. jo WRITE ALLOW"),
        ("promoted", "TOPIC * jo READ ALLOW", "TOPIC A... jo READ ALLOW"),
        ("promoted", "TRANSACTIONAL_ID tx jo WRITE ALLOW", "TRANSACTIONAL_ID tx jo WRITE ALLOW"),
        ("promoted", "TRANSACTIONAL_ID tw.. ANONYMOUS WRITE ALLOW", None),
        ("promoted", "TRANSACTIONAL_ID * * WRITE ALLOW", None),
        ("promoted", "TRANSACTIONAL_ID * jo WRITE DENY", "TRANSACTIONAL_ID * jo WRITE DENY"),
        ("promoted", "GROUP g.. jo ALL ALLOW", "GROUP g.. jo ALL ALLOW"),
        ("promoted", "TRANSACTIONAL_ID tx.. jo WRITE ALLOW", "TRANSACTIONAL_ID tx.. jo WRITE ALLOW"),
        ("promoted", "TRANSACTIONAL_ID twinlog-B->A-.. rep WRITE ALLOW", None),
        ("promoted", "CLUSTER kafka-cluster jo ALL ALLOW", "CLUSTER kafka-cluster jo IDEMPOTENT_WRITE ALLOW"),
        ("promoted", "CLUSTER kafka-cluster jo ALTER ALLOW", None),
        ("promoted", "DELEGATION_TOKEN t jo DESCRIBE ALLOW", None),
    ],
)
def test_what_becomes_of_one_acl(flow, profile, source, expected):
    """One row an ACL of the source; what is left out has a reason."""
    flow = replace(flow, groups=NameFilter((".*",), ("connect-.*",)))
    plan = planned(flow, profile, acls(source))
    assert ({acl(expected)} if expected else set()) == added(plan)
    refused = [it for it in plan.drift if it.message.endswith("; not sent")]
    assert (expected is None) == bool(refused or (plan.left_out and plan.left_out[0].reason))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("TOPIC * jo WRITE ALLOW", [f"TOPIC A.{it} jo WRITE ALLOW" for it in TOPICS]),
        ("TOPIC * jo ALL ALLOW", [f"TOPIC A.{it} jo ALL ALLOW" for it in TOPICS]),
        (
            "TRANSACTIONAL_ID * jo WRITE ALLOW",
            ["TRANSACTIONAL_ID * jo WRITE ALLOW", "TRANSACTIONAL_ID twinlog-.. jo WRITE DENY"],
        ),
        (
            "TRANSACTIONAL_ID t.. jo ALL ALLOW",
            ["TRANSACTIONAL_ID t.. jo ALL ALLOW", "TRANSACTIONAL_ID twinlog-.. jo ALL DENY"],
        ),
    ],
)
def test_what_would_reach_the_flows_state_is_split(flow, source, expected):
    """One ACL for each copy; ids are unknown, so twinlog's own are denied."""
    assert acls(*expected) == added(planned(flow, "promoted", acls(source)))


def test_with_unchanged_names_acls_stay_as_they_are(flow):
    """Identity policy: a star would reach twinlog's topics, so it becomes one ACL for each copy."""
    flow = replace(flow, policy=IdentityReplicationPolicy(source_alias="A"))
    source = acls("TOPIC * jo READ ALLOW", "TOPIC orders.. jo READ ALLOW", "TOPIC pay jo READ ALLOW")
    plan = planned(flow, "standby", source)
    star = acls("TOPIC * jo READ ALLOW")
    assert source - star | acls(*(f"TOPIC {it} jo READ ALLOW" for it in TOPICS)) == added(plan)
    (refused,) = planned(flow, "mm2", star).drift
    assert "it would reach the topics in which flows keep their state; not sent" == refused.message


def test_a_prefix_that_is_more_than_the_copies_is_named(flow):
    """B has topics of its own that begin so."""
    flow = replace(
        flow,
        policy=IdentityReplicationPolicy(source_alias="A"),
        metadata=MetadataSettings(profile=Profile.STANDBY),
    )
    source = tuple(acls("TOPIC orders.. jo READ ALLOW"))
    plan = plan_acls(flow, AclState(source, (), TOPICS, ("orders", "orders-of-b", "mm2-x")), [])
    assert ("User:jo READ on topics orders*: on B that is orders-of-b as well",) == plan.notes


def test_copies_without_a_common_prefix_get_one_acl_each(flow):
    """A policy of one's own may put the alias last."""

    class Suffix(type(flow.policy)):
        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return f"{topic}.{source_alias}"

    flow = replace(flow, policy=Suffix())
    plan = planned(flow, "standby", acls("TOPIC orders.. jo READ ALLOW"))
    assert acls("TOPIC orders.A jo READ ALLOW", "TOPIC orders-late.A jo READ ALLOW") == added(plan)


def test_what_twinlog_added_is_taken_back_when_the_source_takes_it_back(flow):
    """And nothing that somebody else added."""
    ours, theirs = acl("TOPIC A.orders jo READ ALLOW"), acl("TOPIC A.pay jo READ ALLOW")
    source = acls("TOPIC orders ann READ ALLOW")
    target = {ours, theirs, acl("TOPIC A.orders ann READ ALLOW")}
    assert {ours} == removed(planned(flow, "standby", source, target, {ours}))
    assert set() == removed(planned(flow, "mm2", source, target, {ours}))


def test_what_is_there_already_is_not_added(flow):
    """Nor is it twinlog's."""
    assert (
        ()
        == planned(
            flow, "standby", acls("TOPIC orders jo READ ALLOW"), acls("TOPIC A.orders jo READ ALLOW")
        ).changes
    )


def test_a_source_without_any_acl_revokes_nothing(flow):
    """More likely it is broken than tidied up; it is reported."""
    ours = acl("TOPIC A.orders jo READ ALLOW")
    plan = planned(flow, "standby", set(), {ours}, {ours})
    assert () == plan.changes
    assert ["A shows no ACL at all: nothing is revoked on B"] == [it.message for it in plan.drift]


def test_a_promotion_takes_nothing_from_readers(flow):
    """READ stays beside ALL; the way back takes the rest away again."""
    source, read = acls("TOPIC orders jo ALL ALLOW"), acl("TOPIC A.orders jo READ ALLOW")
    everything = acl("TOPIC A.orders jo ALL ALLOW")
    up = planned(flow, "promoted", source, {read}, {read})
    assert (AclChange(everything, add=True),) == up.changes
    down = planned(flow, "standby", source, {read, everything}, {read, everything})
    assert (AclChange(everything, add=False),) == down.changes


def test_a_principal_type_that_kafka_does_not_know_is_reported_and_not_sent(flow):
    """By itself; the others are planned."""
    plan = planned(
        flow, "standby", acls("TOPIC orders Group:admins READ ALLOW", "TOPIC orders jo READ ALLOW")
    )
    assert acls("TOPIC A.orders jo READ ALLOW") == added(plan)
    [drift] = plan.drift
    assert ("topic orders", "Group:admins READ") == (drift.resource, drift.name)
    assert "principals of type User only, not Group" in drift.message


def test_an_operation_of_a_later_release_is_reported_and_not_sent(flow):
    """Its number is named."""
    plan = planned(flow, "promoted", acls("TOPIC orders jo UNKNOWN(99) ALLOW"))
    assert () == plan.changes
    assert "UNKNOWN(99) is not known to this release" in plan.drift[0].message


def test_what_is_gone_from_both_sides_is_forgotten(flow):
    """So that the same ACL, made by somebody else, would be theirs."""
    ours = acl("TOPIC A.orders jo READ ALLOW")
    plan = planned(flow, "standby", acls("TOPIC pay jo READ ALLOW"), set(), {ours})
    assert (AclChange(ours, add=False),) == plan.agreed


@pytest.mark.parametrize(
    "forged",
    [
        "TOPIC payroll ann READ ALLOW",
        "TOPIC pay.. ann READ ALLOW",
        "TOPIC * ann READ ALLOW",
        "TOPIC payroll ann WRITE DENY",
        "TRANSACTIONAL_ID twinlog-A->B-.. twinlog WRITE ALLOW",
        "CLUSTER kafka-cluster ops ALTER ALLOW",
        "GROUP connect-x ann READ ALLOW",
    ],
)
def test_the_ledger_alone_revokes_nothing(flow, forged):
    """Who may write there could have any ACL of B deleted: one that the flow does not make stays, and is named."""
    flow = replace(flow, groups=NameFilter((".*",), ("connect-.*",)))
    plan = planned(flow, "promoted", acls("TOPIC orders jo READ ALLOW"), acls(forged), acls(forged))
    assert set() == removed(plan)
    assert ["the ledger says that twinlog made it"] == [it.message.partition(",")[0] for it in plan.drift]


bindings = st.sets(
    st.builds(
        AclBinding,
        st.sampled_from(["TOPIC", "GROUP", "TRANSACTIONAL_ID", "CLUSTER", "USER"]),
        st.sampled_from(["LITERAL", "PREFIXED"]),
        st.sampled_from([
            "*",
            "orders",
            "o",
            "pay",
            "A.",
            "m",
            "mm2-l",
            "c",
            "t",
            "twinlog-x",
            "kafka-cluster",
        ]),
        st.sampled_from(["User:jo", "User:*", "Group:x"]),
        st.sampled_from(["*", "10.0.0.1"]),
        st.sampled_from(["ALL", "READ", "WRITE", "DESCRIBE", "IDEMPOTENT_WRITE", "DELETE"]),
        st.sampled_from(["ALLOW", "DENY"]),
    ),
    max_size=12,
)


STATE = ("mm2-ledger.A.internal", "mm2-quarantine.A.internal", "mm2-tail.A.internal")


@given(bindings, st.sampled_from(list(Profile)), st.booleans())
def test_no_allow_reaches_the_flows_state(base_flow, source, profile, unchanged_names):
    """Whatever the source allows; of checkpoints applications get what readers need."""
    policy = IdentityReplicationPolicy(source_alias="A") if unchanged_names else base_flow.policy
    given_now = added(planned(replace(base_flow, policy=policy), profile.value, source))
    for it in given_now:
        if it.permission == "ALLOW":
            assert not any(it.is_about(topic) for topic in STATE)
            assert it.operation in {"READ", "DESCRIBE"} or not it.is_about("A.checkpoints.internal")
        if it.permission == "ALLOW" and it.resource_type == "TRANSACTIONAL_ID":
            ours = it.name == "*" or (it.pattern == "PREFIXED" and "twinlog-".startswith(it.name))
            denied = replace(it, pattern="PREFIXED", name="twinlog-", permission="DENY")
            assert not it.name.startswith("twinlog-") and (not ours or denied in given_now)


@given(bindings, st.sampled_from(list(Profile)), st.booleans())
def test_what_the_flow_makes_it_could_have_made(base_flow, source, profile, unchanged_names):
    """Or an ACL of its own would never be revoked."""
    policy = IdentityReplicationPolicy(source_alias="A") if unchanged_names else base_flow.policy
    flow = replace(base_flow, policy=policy, metadata=MetadataSettings(profile=profile))
    scope = AclScope(flow, TOPICS)
    for it in source:
        for brought in scope.bring(it).bindings:
            covers_nothing = it.pattern == "PREFIXED" and it.permission == "DENY" and unchanged_names
            assert scope.could_make(brought) or covers_nothing


@given(bindings)
def test_ledger_records_hold_acls_as_they_are(wanted):
    """Written by resource pattern, read back whole."""
    assert wanted == {it for record in records_of(wanted, 0) for it in bindings_of(record)}


@given(source=bindings, target=bindings, ours=bindings, profile=st.sampled_from(list(Profile)))
def test_laws_of_every_plan(base_flow, source, target, ours, profile):
    """Only what twinlog added goes, what goes was there; a DENY is never turned into less, nor made an ALLOW."""
    plan = planned(base_flow, profile.value, source, target, ours)
    assert removed(plan) <= ours & target
    assert not added(plan) & target
    for it in added(plan):
        sources = {each for each in source if each.principal == it.principal and each.host == it.host}
        guards_ours = (it.name, it.permission) == ("twinlog-", "DENY")
        same = sources if guards_ours else {each for each in sources if each.permission == it.permission}
        assert any(
            each.operation == it.operation
            or (each.operation == "ALL" and it.permission == "ALLOW")
            or (it.resource_type == "CLUSTER" and each.operation == "ALL")
            for each in same
        )
    order = [(True, "DENY"), (True, "ALLOW"), (False, "ALLOW"), (False, "DENY")]
    kinds = [order.index((it.add, it.binding.permission)) for it in plan.changes]
    assert sorted(kinds) == kinds
    if profile is Profile.STANDBY:
        reading = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
        assert {it.operation for it in added(plan) if it.permission == "ALLOW"} <= reading


class Counting(IdentityReplicationPolicy):
    """Keeps the names it is asked for."""

    asked: ClassVar[list[str]] = []

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """As it is."""
        self.asked.append(topic)
        return super().format_remote_topic(source_alias, topic)


def test_many_acls_on_one_prefix_look_through_the_topics_once(flow):
    """The cost of a plan is that of its ACLs and that of its topics, not their product."""
    policy = Counting(source_alias="A")
    topics = tuple(f"t{n}" for n in range(100))
    source = acls(*(f"TOPIC {name} u{n} READ ALLOW" for name in ("*", "t..") for n in range(100)))
    plan = plan_acls(replace(flow, policy=policy), AclState(tuple(source), (), topics), [])
    each = {replace(it, name=topic) for it in source if it.name == "*" for topic in topics}
    assert {it for it in source if it.name != "*"} | each == added(plan)
    assert len(policy.asked) < 1_000
