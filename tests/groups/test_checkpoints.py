"""Groups are translated, committed and reported; nothing is guessed, nobody is overwritten."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog import clock
from twinlog.cluster.admin.groups import GroupState, GroupType
from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy, GroupSyncSettings
from twinlog.errors import ClusterRefused, FormatError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.topics import (
    Beginning,
    GroupPosition,
    Incarnation,
    IncarnationReason,
    Rebuild,
    RebuildPhase,
)
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups import checkpoints
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.groups.view import ASKED_SECONDS
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot

TOPIC = "A.checkpoints.internal"
REMOTE = TopicPartition("A.orders", 0)


@pytest.fixture
def flow(flow) -> FlowSettings:
    return replace(flow, sync_group_offsets=True)


@pytest.fixture
def step(flow, clusters) -> Callable[..., checkpoints.CheckpointsResult]:
    return lambda **changes: checkpoints.run(replace(flow, **changes), clusters)


def with_policy(policy: str) -> GroupSyncSettings:
    return GroupSyncSettings(GroupSyncPolicy(policy))


def only(result: checkpoints.CheckpointsResult) -> GroupPartitionRow:
    (row,) = result.rows
    return row


def seen(row: GroupPartitionRow) -> tuple:
    return row.state, row.reason, row.downstream_offset, row.committed_there, row.expected_duplicates


def there(target: FakeCluster, group: str = "billing") -> dict:
    return {it: found.offset for it, found in target.committed_offsets([group]).require()[group].items()}


def written(target: FakeCluster) -> list[Checkpoint | None]:
    return [
        Checkpoint.parse(it.key, it.value) if it.value is not None else None
        for it in target.topics[TOPIC].logs[0].records
    ]


SYNCED, LEFT, WRONG = SyncState.SYNCED, SyncState.INTENTIONALLY_NOT, SyncState.WRONGLY_NOT


def test_a_position_is_translated_committed_and_written_down(step, orders, copied, source, target):
    """With its metadata, once: the second time there is nothing to do."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3, "its own words")
    first, second = step(), step()
    assert (SYNCED, SyncReason.WRITTEN, 3, 3, 0) == seen(only(first))
    assert (SYNCED, SyncReason.UNCHANGED, 3, 3, 0) == seen(only(second))
    assert [(1, 1, ("billing",)), (0, 0, ())] == [
        (it.checkpoints, it.committed, it.groups_synced) for it in (first, second)
    ]
    assert [Checkpoint("billing", "A.orders", 0, 3, 3, "its own words")] == written(target)
    assert "its own words" == target.committed_offsets(["billing"]).found["billing"][REMOTE].metadata


def test_without_the_setting_it_is_only_reported(step, orders, copied, source, target):
    """MM2's default: checkpoints, and nothing committed; what a start there would cost is known."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    target.commit("billing", REMOTE, 1)
    assert (LEFT, SyncReason.SYNC_DISABLED, 3, 1, 2) == seen(only(step(sync_group_offsets=False)))
    assert {REMOTE: 1} == there(target)


def test_a_group_with_members_there_is_never_touched(step, orders, copied, source, target):
    """It commits for itself."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 5)
    target.commit("billing", REMOTE, 2).state = GroupState.STABLE
    assert (LEFT, SyncReason.ACTIVE_THERE, 5, 2, 3) == seen(only(step()))
    assert {REMOTE: 2} == there(target)


@pytest.mark.parametrize(
    ("policy", "ours", "expected"),
    [
        ("never-rewind", True, (LEFT, SyncReason.NEVER_REWIND, 1, 4, 0)),
        ("never-rewind", False, (SYNCED, SyncReason.READ_ON_THERE, 1, 5, 0)),
        ("follow", True, (SYNCED, SyncReason.WRITTEN, 1, 1, 0)),
        ("follow", False, (SYNCED, SyncReason.READ_ON_THERE, 1, 5, 0)),
        ("force", True, (SYNCED, SyncReason.WRITTEN, 1, 1, 0)),
        ("force", False, (SYNCED, SyncReason.WRITTEN, 1, 1, 0)),
    ],
)
def test_a_rewind_follows_the_policy(step, orders, copied, source, target, policy, ours, expected):
    """Only `force` overwrites what somebody read on the target; checkpoints tell the rewind either way."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 4)
    step()
    if not ours:
        target.commit("billing", REMOTE, 5)
    source.commit("billing", orders, 1)
    assert expected == seen(only(step(group_sync=with_policy(policy))))
    assert 1 == written(target)[-1].downstream_offset


def test_what_a_rewind_has_yet_to_give_back_is_counted(step, flow, clusters, orders, copied, source, target):
    """By a dry run, or where the write is refused; once it is written nothing is skipped."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 4)
    step()
    source.commit("billing", orders, 1)
    follows = replace(flow, group_sync=with_policy("follow"))
    promised = only(checkpoints.run(follows, clusters, dry_run=True))
    done = only(checkpoints.run(follows, clusters))
    source.commit("billing", orders, 0)
    target.refuse("alter_offsets", "billing", ClusterRefused("no"))
    refused = only(checkpoints.run(follows, clusters))
    assert [(SYNCED, 4, 3), (SYNCED, 1, 0), (WRONG, 1, 1)] == [
        (row.state, row.committed_there, row.records_skipped) for row in (promised, done, refused)
    ]


@pytest.mark.parametrize(("expired_here", "missing", "exact"), [(0, 2, False), (3, 1, False), (4, 0, True)])
def test_what_has_expired_there_unread_is_told(
    step, orders, copied, source, target, expired_here, missing, exact
) -> None:
    """The position is committed all the same, as MM2 does; it is exact where the source has no more than the target."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 2)
    target.delete_records(REMOTE, 4)
    source.delete_records(orders, expired_here)
    row = only(step())
    assert (SYNCED, SyncReason.WRITTEN, 4, 4, 0) == seen(row)
    assert (missing, exact) == (row.records_missing, row.exact)
    assert bool(missing) == (f"at most {missing} unread record(s) are not on the target" in row.text)


def test_a_group_whose_place_has_expired_misses_what_only_the_source_still_has(
    step, orders, copied, source, target
) -> None:
    """No reset happens there, where its position lies within the log: from 2 on it would have read on the source."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 1)
    source.delete_records(orders, 2)
    target.delete_records(REMOTE, 5)
    row = only(step())
    assert (SYNCED, SyncReason.WRITTEN, 5, 5, 0) == seen(row)
    assert (False, 3) == (row.exact, row.records_missing)
    assert "at most 3 unread record(s) are not on the target" in row.text


def test_a_group_that_read_on_there_is_moved_forward_only(step, orders, copied, source, target):
    """What it read on either side it does not read again."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 2)
    step()
    target.commit("billing", REMOTE, 3)
    assert SyncReason.READ_ON_THERE == only(step()).reason
    source.commit("billing", orders, 5)
    assert (SYNCED, SyncReason.WRITTEN, 5, 5, 0) == seen(only(step()))


def test_beyond_the_copy_a_group_waits_at_its_end(step, orders, copied, source, target):
    """And the report says how much it would see again; the next copy cures it."""
    copied(orders, 0, 3)
    source.commit("billing", orders, 5)
    row = only(step())
    assert (SYNCED, SyncReason.WRITTEN, 3, 3, 2) == seen(row)
    assert (True, True) == (row.exact, row.ahead)
    copied(orders, 3, 5)
    assert (SYNCED, SyncReason.WRITTEN, 5, 5, 0) == seen(only(step()))


def test_in_a_hole_nothing_is_skipped(step, flow, orders, copied, source, target):
    """Somebody else copied two records between two of our pieces."""
    copied(orders, 0, 2)
    for _ in range(2):
        target.append(REMOTE, key=b"k", value=b"v")
    copied(orders, 4, 5)
    source.commit("billing", orders, 3)
    row = only(step())
    assert (SYNCED, SyncReason.WRITTEN, 2, 2, 1) == seen(row)
    assert not row.exact


def test_below_everything_mapped_nothing_is_guessed(step, orders, copied, source, target):
    """Records of somebody else lie before ours: where the group stands among them is unknown."""
    for _ in range(2):
        target.append(REMOTE, key=b"k", value=b"v")
    copied(orders, 2, 5)
    source.commit("billing", orders, 1)
    assert (WRONG, SyncReason.NOT_MAPPED, None, None, None) == seen(only(step()))
    target.delete_records(REMOTE, 2)
    assert (SYNCED, SyncReason.WRITTEN, 2, 2, 0) == seen(only(step()))


def test_positions_are_held_within_the_log(step, orders, copied, source, target):
    """Never below the target's log start."""
    copied(orders, 0, 5)
    target.delete_records(REMOTE, 4)
    source.commit("billing", orders, 1)
    assert (SYNCED, SyncReason.WRITTEN, 4, 4, 0) == seen(only(step()))


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda source, orders: source.commit("billing", orders, 9), SyncReason.INVALID_OFFSET),
        (
            lambda source, orders: source.commit("billing", orders, 3, "x" * 40_000),
            SyncReason.METADATA_TOO_LONG,
        ),
    ],
)
def test_what_cannot_be_is_named_and_nothing_is_written(
    step, orders, copied, source, target, prepare, expected
):
    """A position beyond the source's end, metadata longer than a checkpoint's."""
    copied(orders, 0, 5)
    prepare(source, orders)
    row = only(step())
    assert (WRONG, expected, {}, []) == (row.state, row.reason, there(target), written(target))


def test_a_refusal_of_one_group_costs_no_other(step, orders, copied, source, target):
    """It is reported, and tried again in the next cycle."""
    copied(orders, 0, 5)
    for group in ("a,b", "c:d/e", "группа"):
        source.commit(group, orders, 3)
    target.refuse("alter_offsets", "c:d/e", ClusterRefused("B says no"))
    rows = {row.group: row.reason for row in step().rows}
    assert {"a,b": SyncReason.WRITTEN, "c:d/e": SyncReason.REFUSED, "группа": SyncReason.WRITTEN} == rows


def rewound(step, orders, copied, source) -> None:
    """`billing` stands at 4 on both sides by our own doing, and is then taken back to 1 on the source."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 4)
    step()
    source.commit("billing", orders, 1)


@pytest.mark.parametrize("verb", ["alter_offsets", "committed_offsets"])
@pytest.mark.parametrize("policy", ["follow", "force"])
def test_a_rewind_that_could_not_be_committed_is_followed_later(
    step, orders, copied, source, target, verb, policy
):
    """A coordinator is away, say: a checkpoint that told it already would make the position there somebody else's."""
    rewound(step, orders, copied, source)
    target.refuse(verb, "billing", ClusterRefused("B says no"))
    results = [step(group_sync=with_policy(policy)) for _ in range(2)]
    assert [(SyncReason.REFUSED, 0)] * 2 == [(only(it).reason, it.checkpoints) for it in results]
    assert [4] == [it.downstream_offset for it in written(target)]
    target.allow(verb, "billing")
    assert (SYNCED, SyncReason.WRITTEN, 1, 1, 0) == seen(only(step(group_sync=with_policy(policy))))
    assert [4, 1] == [it.downstream_offset for it in written(target)]


def test_a_checkpoint_that_was_held_back_is_as_old_as_it_is(step, orders, copied, source, target):
    """What was not written is not fresh."""
    rewound(step, orders, copied, source)
    before = target.topics[TOPIC].logs[0].records[-1].timestamp
    target.refuse("alter_offsets", "billing", ClusterRefused("B says no"))
    assert [before] == [it.at_ms for it in step(group_sync=with_policy("follow")).ages]


@pytest.mark.parametrize(
    ("verb", "changes"),
    [
        ("committed_offsets", {"group_sync": with_policy("never-rewind")}),
        ("committed_offsets", {"group_sync": with_policy("follow"), "sync_group_offsets": False}),
    ],
)
def test_where_nobody_would_follow_a_rewind_its_checkpoint_waits_for_nothing(
    step, orders, copied, source, target, verb, changes
):
    """As MM2's: clients that translate by it start where the group stands."""
    rewound(step, orders, copied, source)
    target.refuse(verb, "billing", ClusterRefused("B says no"))
    assert 1 == step(**changes).checkpoints
    assert 1 == written(target)[-1].downstream_offset


def test_a_step_forward_is_in_its_checkpoint_whatever_became_of_the_commit(
    step, orders, copied, source, target
):
    """As MM2's; the next step forward needs no leave."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 1)
    step()
    source.commit("billing", orders, 4)
    target.refuse("alter_offsets", "billing", ClusterRefused("B says no"))
    assert (SyncReason.REFUSED, 1) == (only(result := step()).reason, result.checkpoints)
    assert 4 == written(target)[-1].downstream_offset


def test_groups_by_filter_and_type(step, orders, copied, source):
    """Streams groups are placed by their input offsets, share groups without a start named, and filtered ones not."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    source.commit("console-consumer-1", orders, 3)
    source.commit("shared", orders, 3).type = GroupType.SHARE
    source.commit("streaming", orders, 3).type = GroupType.STREAMS
    result = step(groups=NameFilter((".*",), ("console-consumer-.*",)))
    assert ["billing", "streaming"] == [row.group for row in result.rows]
    assert [("shared", "share", True)] == [(it.group, it.type, it.ours) for it in result.uncovered]


def share_starts(target: FakeCluster) -> dict:
    return {it: start.offset for it, start in target.share_starts(["shared"]).require()["shared"].items()}


@pytest.mark.parametrize(("lag", "again"), [(-1, 2), (1, 1), (2, 0), (9, 0)])
def test_a_share_group_is_placed_by_its_start_offset(step, orders, copied, source, target, lag, again):
    """Never exact: what it acknowledged behind that comes again, at most all of it; MM2 has no checkpoint for it."""
    copied(orders, 0, 5)
    source.start_share("shared", orders, 3, lag)
    result = step()
    row = only(result)
    assert (SyncState.SYNCED, SyncReason.WRITTEN, 3, 3, again) == seen(row)
    assert (False, False, (), 1, 0) == (
        row.exact,
        row.ahead,
        result.uncovered,
        result.committed,
        result.checkpoints,
    )
    assert ({REMOTE: 3}, []) == (share_starts(target), written(target))
    assert (SyncState.SYNCED, SyncReason.UNCHANGED, 3, 3, again) == seen(only(step()))


def test_a_share_group_ahead_of_the_copy_waits_at_its_end(step, orders, copied, source, target):
    """What it acknowledged beyond the copy comes again, and what it acknowledged behind its start offset."""
    copied(orders, 0, 5)
    for _ in range(4):
        source.append(orders, key=b"k", value=b"v")
    source.start_share("shared", orders, 7, lag=1)
    row = only(step())
    assert (5, True, False, 2 + 1) == (
        row.downstream_offset,
        row.ahead,
        row.exact,
        row.expected_duplicates,
    )
    assert {REMOTE: 5} == share_starts(target)


def test_a_share_group_that_cannot_be_placed_is_named(step, orders, copied, source, target):
    """Nothing acknowledged, members on the target, sync off, a refusal on either side: nothing is written."""
    copied(orders, 0, 5)
    source.start_share("shared", orders, -1)
    [named] = step().uncovered
    assert (
        "shared",
        "it reads orders-0 and has committed nothing there: its share.auto.offset.reset",
    ) == (
        named.group,
        named.reason.partition(" says")[0],
    )
    source.start_share("shared", orders, 3)
    assert SyncReason.SYNC_DISABLED is only(step(sync_group_offsets=False)).reason
    target.refuse("alter_share_starts", "shared", ClusterRefused("B is too old"))
    assert (SyncReason.REFUSED, "B is too old") == ((row := only(step())).reason, row.text)
    target.refuse("share_starts", "shared", ClusterRefused("B lacks it"))
    assert (SyncReason.REFUSED, "B lacks it") == ((row := only(step())).reason, row.text)
    source.refuse("share_starts", "shared", ClusterRefused("A says no"))
    assert [("shared", "A says no", True)] == [(it.group, it.reason, it.refused) for it in step().uncovered]


def test_a_share_group_with_members_on_the_target_is_left_there(step, orders, copied, source, target):
    """They read on by themselves; a failover waits for them, as for others."""
    copied(orders, 0, 5)
    source.start_share("shared", orders, 3)
    target.start_share("shared", REMOTE, 1).state = GroupState.STABLE
    assert (SyncReason.ACTIVE_THERE, True) == ((row := only(step())).reason, row.misplaced)
    assert {REMOTE: 1} == share_starts(target)


def test_a_group_whose_name_has_a_line_end_is_named(step, orders, copied, source):
    """No dot of a Java pattern matches it, in MM2 neither: it would begin anywhere on B, and nobody knew."""
    copied(orders, 0, 5)
    for name in ("billing\none", "console-consumer-1\n", "other"):
        source.commit(name, orders, 3)
    result = step(groups=NameFilter(("billing.*", "console.*"), ("console-consumer-.*",)))
    assert [("billing\none", False)] == [(it.group, it.ours) for it in result.uncovered]
    assert "line end" in result.uncovered[0].reason
    assert ["billing\none"] == [it.group for it in step(groups=NameFilter(("(?s)billing.*",))).rows]


def test_a_member_that_has_committed_nothing_yet_is_named(step, orders, copied, source):
    """Its partition has records; on B `auto.offset.reset` would decide. One of an empty partition misses nothing."""
    copied(orders, 0, 5)
    source.add_topic("empty")
    group = source.commit("billing", TopicPartition("empty", 0), 0)
    group.state, group.assigned = GroupState.STABLE, frozenset({orders, TopicPartition("empty", 0)})
    [found] = step().uncovered
    assert ("billing", GroupType.CLASSIC, True) == (found.group, found.type, found.ours)
    assert "it reads orders-0 and has committed nothing there" in found.reason
    source.commit("billing", orders, 3)
    assert () == step().uncovered


def test_a_group_whose_name_takes_too_long_to_match_is_named(step, orders, copied, source):
    """It is none of the flow's, and nobody has to wait for it."""
    source.commit("-" * 30_000, orders, 3)
    source.commit("billing", orders, 3)
    result = step(groups=NameFilter((".*-.*-prod", "billing")))
    assert (["billing"], ["-" * 30_000]) == (
        [it.group for it in result.rows],
        [it.group for it in result.uncovered],
    )


def test_a_group_that_is_gone_keeps_its_checkpoint(step, orders, copied, source, target):
    """MM2's client cannot read tombstones.  It is counted, and has no age; a hidden group is not gone."""
    copied(orders, 0, 5)
    for group in ("billing", "hidden"):
        source.commit(group, orders, 3)
    before = step().checkpoints
    for group in ("billing", "hidden"):
        source.delete_groups([group])
    source.refuse("committed_offsets", "hidden", ClusterRefused("A does not show it"))
    result = step()
    assert (1, ["hidden"]) == (result.ended, [it.group for it in result.ages])
    assert (2, 2) == (before, len(written(target)))
    assert "the positions of group hidden are not told: A does not show it" == result.untold


def test_a_group_that_the_source_has_and_does_not_list_is_named(step, orders, copied, source):
    """A list leaves out what a user may not see, and says nothing: the group would stand still in silence."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    step()
    source.commit("billing", orders, 4)
    source.unlisted.add("billing")
    result = step()
    assert (0, 0) == (result.ended, result.committed)
    assert (
        "the positions of group billing are not told: A has it and does not list it (ListGroups)"
        == result.untold
    )


@pytest.mark.parametrize(("hides", "asked", "ended"), [(False, 0, 1_000), (True, 1_000, 999)])
def test_groups_that_ended_long_ago_are_not_asked_for(
    hides, asked, ended, step, orders, copied, source, monkeypatch
):
    """The listing answers for all of them at once; one that hides groups answers for none."""
    copied(orders, 0, 5)
    source.commit("alive", orders, 3)
    names = [f"job-{number}" for number in range(1_000)]
    for name in names:
        source.commit(name, orders, 3)
    step()
    source.delete_groups(names)
    source.refuse("committed_offsets", names[0], ClusterRefused("A does not show it"))
    source.hides_groups = hides
    now = clock.now_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: now + (ASKED_SECONDS + 1) * 1000)
    source.items_asked.clear()
    result = step()
    assert (ended, asked + len(["alive"])) == (result.ended, source.items_asked["committed_offsets"])
    assert 0 == source.items_asked["describe_groups"]


def test_a_group_that_was_seen_just_now_is_asked_for(step, orders, copied, source, target):
    """Its coordinator may be moving: then nobody lists it."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    step()
    source.groups = lambda: ()
    assert (0, ["billing"]) == ((result := step()).ended, [it.group for it in result.ages])


def test_old_checkpoints_are_repeated(step, flow, orders, copied, source, target):
    """So that the age of each tells when it was last true."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    old = Checkpoint("billing", "A.orders", 0, 3, 3)
    target.append(TopicPartition(TOPIC, 0), key=old.key(), value=old.value(), timestamp=1)
    assert 1 == step().checkpoints
    assert 0 == step().checkpoints


@pytest.mark.parametrize(
    ("into_empty", "expected"), [(True, (True, 0)), (False, (False, 2)), (None, (False, 2))]
)
def test_in_front_of_what_came_from_the_target_nothing_is_missing_if_its_ledger_says_so(
    step, source, with_internal, into_empty, expected
) -> None:
    """The first transaction was aborted; without the ledger of the other flow these offsets may hold records."""
    target, copy, original = with_internal, TopicPartition("B.t", 0), TopicPartition("t", 0)
    for cluster, partition, count in ((source, copy, 6), (target, original, 4)):
        cluster.add_topic(partition.topic)
        for _ in range(count):
            cluster.append(partition, key=b"k", value=b"v")
    lives = {
        cluster: cluster.topics[it.topic].topic_id for cluster, it in ((source, copy), (target, original))
    }
    source.add_topic("mm2-offset-map.B.internal")
    source.add_topic("mm2-ledger.B.internal")
    key, piece = MapKey("t", lives[target], 0, 0), MapSegment(0, 4, (Extent(0, 2, 4),))
    source.append(
        TopicPartition("mm2-offset-map.B.internal", 0), key=encode_map_key(key), value=encode_segment(piece)
    )
    life = Incarnation("t", lives[target], 1, "B.t", lives[source])
    begins = Beginning("t", lives[target], {"0": 0}, {"0": 0}, 1, into_empty or False)
    for it in (life,) if into_empty is None else (life, begins):
        source.append(TopicPartition("mm2-ledger.B.internal", 0), key=it.key(), value=it.value())
    source.commit("billing", copy, 0)
    row = only(step())
    assert (SYNCED, SyncReason.WRITTEN, 0, 0, 0) == seen(row)
    assert expected == (row.exact, row.records_missing)


def test_a_topic_that_came_from_the_target_goes_back_by_one_hop(step, flow, source, with_internal, clusters):
    """`B.x.y` on A is `x.y` on B, by the map of B->A read backwards."""
    target = with_internal
    source.add_topic("B.x.y")
    target.add_topic("x.y")
    for cluster, topic in ((source, "B.x.y"), (target, "x.y")):
        for _ in range(6):
            cluster.append(TopicPartition(topic, 0), key=b"k", value=b"v")
    source.add_topic("mm2-offset-map.B.internal")
    key = MapKey("x.y", target.topics["x.y"].topic_id, 0, 0)
    piece = MapSegment(0, 6, (Extent(0, 0, 2), Extent(4, 2, 2)))
    source.append(
        TopicPartition("mm2-offset-map.B.internal", 0), key=encode_map_key(key), value=encode_segment(piece)
    )
    source.commit("billing", TopicPartition("B.x.y", 0), 3)
    result = step()
    assert ("x.y", SYNCED, SyncReason.WRITTEN, 5, 5, 0) == (only(result).remote_topic, *seen(only(result)))


def test_what_is_first_copied_both_ways_while_maps_are_read_is_not_skipped(
    flow, source, with_internal, clusters
) -> None:
    """B->A has passed over the copy of A's first record already; the map of A->B is read behind what it noted."""
    target, at = with_internal, TopicPartition("t", 0)
    flow = replace(flow, policy=IdentityReplicationPolicy(), topics=NameFilter(("t",)))
    for cluster in (source, target):
        cluster.add_topic("t")
    source.append(at, key=b"k", value=b"v")
    source.commit("billing", at, 0)
    lives = [cluster.topics["t"].topic_id for cluster in (source, target)]
    for name in ("mm2-offset-map.B.internal", "mm2-ledger.B.internal"):
        source.add_topic(name)
    life = Incarnation("t", lives[1], 1, "t", lives[0])
    source.append(TopicPartition("mm2-ledger.B.internal", 0), key=life.key(), value=life.value())
    snapshot = FlowSnapshot(flow, clusters).read_state()
    target.append(at, key=b"k", value=b"v")
    ways = ((target, flow.offset_map_topic, (Extent(0, 0, 1),)), (source, "mm2-offset-map.B.internal", ()))
    for life_id, (cluster, topic, runs) in zip(lives, ways, strict=True):
        key, segment = MapKey("t", life_id, 0, 0), MapSegment(0, 1, runs)
        cluster.append(TopicPartition(topic, 0), key=encode_map_key(key), value=encode_segment(segment))
    row = only(checkpoints.run(flow, clusters, snapshot))
    assert (0, 0) == (row.downstream_offset, there(target)[at])


@pytest.mark.parametrize("phase", [FlowPhase.FAILING_OVER, FlowPhase.PROMOTED])
def test_after_a_failover_nobody_is_moved(step, flow, orders, copied, source, target, phase):
    """The groups belong to the target then."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    state = FlowState(phase, 1, "somebody", "a drill")
    target.append(TopicPartition(flow.ledger_topic, 0), key=state.key(), value=state.value())
    assert (LEFT, SyncReason.SYNC_DISABLED) == seen(only(step()))[:2]
    assert {} == there(target)


def test_a_failover_of_the_other_direction_holds_the_groups_too(step, orders, copied, source, target):
    """While B->A fails over to A, nobody else moves a group there; afterwards they are moved again."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    source.add_topic("mm2-ledger.B.internal")
    ledger = TopicPartition("mm2-ledger.B.internal", 0)
    state = FlowState(FlowPhase.FAILING_OVER, 1, "somebody", "a drill")
    source.append(ledger, key=state.key(), value=state.value())
    row = only(step())
    assert (LEFT, SyncReason.SYNC_DISABLED) == seen(row)[:2]
    assert "B->A is failing over, by somebody" in row.text
    assert {} == there(target)
    state = FlowState(FlowPhase.ACTIVE, 2, "somebody", "over")
    source.append(ledger, key=state.key(), value=state.value())
    assert SYNCED == seen(only(step()))[0]


def test_a_map_that_cannot_be_read_stops_its_partition(step, flow, orders, copied, source, target):
    """An unknown version, say: nothing is written for it, and the record at fault is named."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    key = encode_map_key(MapKey("orders", source.topics["orders"].topic_id, 0, 7))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=key, value=b"\x09\x00\x00")
    row = only(step())
    assert (SyncState.WRONGLY_NOT, SyncReason.MAP_UNREADABLE) == (row.state, row.reason)
    assert "version 9" in row.text and f"offset 1 of {flow.offset_map_topic}-0" in row.text
    assert ({}, []) == (there(target), written(target))


def test_a_record_that_may_be_anybodys_stops_everything(step, flow, orders, copied, source, target):
    """A key of an unknown version, say: nothing is written."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    target.append(TopicPartition(flow.offset_map_topic, 0), key=b"\x09" + bytes(30), value=b"what")
    with pytest.raises(FormatError, match="version 9"):
        step()
    assert ({}, []) == (there(target), written(target))


def test_a_dry_run_reports_and_writes_nothing(flow, clusters, orders, copied, source, target):
    """What `twinlog groups` shows."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    row = only(checkpoints.run(flow, clusters, dry_run=True))
    assert (SYNCED, SyncReason.WRITTEN, {}, []) == (row.state, row.reason, there(target), written(target))


def test_a_recreated_topic_is_not_translated(step, orders, copied, source, target):
    """Its offsets are another life's."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    step()
    source.delete_topics(["orders"])
    source.add_topic("orders")
    for number in range(5):
        source.append(orders, key=b"k", value=b"new", timestamp=number)
    row = only(step())
    assert row.state is WRONG
    assert {REMOTE: 3} == there(target)


@pytest.mark.parametrize("verb", ["offsets", "describe_topics"])
def test_a_position_where_the_source_tells_nothing_is_reported(step, orders, copied, source, target, verb):
    """A partition without a leader, a topic this user may not see; what is not replicated has no row as ever."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    source.commit("billing", TopicPartition("mm2-x.internal", 0), 3)
    target.commit("billing", REMOTE, 2)
    source.refuse(verb, "orders", ClusterRefused("nobody leads it"))
    row = only(step())
    assert (WRONG, SyncReason.NOT_COPIED, None, 2, None) == seen(row)
    assert ("A.orders", 3) == (row.remote_topic, row.upstream_offset)
    assert "nobody leads it" in row.text
    assert ({REMOTE: 2}, []) == (there(target), written(target))


@pytest.mark.parametrize("anew", [True, False])
def test_a_copy_that_is_made_anew_meanwhile_gets_no_place_of_the_old_one(
    step, monkeypatch, orders, copied, source, target, anew
) -> None:
    """A group without a position looks the same on both; nothing is committed, and no checkpoint tells of it."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    look = checkpoints.look

    def looked(*both: object) -> object:
        seen = look(*both)
        target.delete_topics(["A.orders"])
        if anew:
            target.add_topic("A.orders")
        return seen

    monkeypatch.setattr(checkpoints, "look", looked)
    row = only(step())
    assert (WRONG, SyncReason.RECREATED, None, None, None) == seen(row)
    assert ({}, []) == (there(target), written(target))


def test_a_copy_that_is_not_shown_any_more_gets_no_place_until_it_is(
    step, monkeypatch, orders, copied, source, target
) -> None:
    """It may have been made anew meanwhile; what is reported is the refusal."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    look = checkpoints.look

    def looked(*both: object) -> object:
        seen = look(*both)
        target.refuse("describe_topics", "A.orders", ClusterRefused("B does not show it"))
        return seen

    monkeypatch.setattr(checkpoints, "look", looked)
    row = only(step())
    assert (WRONG, SyncReason.REFUSED, None, None, None) == seen(row)
    assert ("B does not show it", {}, []) == (row.text, there(target), written(target))
    monkeypatch.undo()
    target.allow("describe_topics", "A.orders")
    assert (SYNCED, SyncReason.WRITTEN, 3, 3, 0) == seen(only(step()))


@pytest.mark.parametrize("policy", ["never-rewind", "force"])
def test_a_place_that_a_rebuild_keeps_is_not_overtaken(
    step, flow, orders, copied, source, target, policy
) -> None:
    """Another partition or group is synced, and the checkpoint is written; once it is restored it is synced as ever."""
    copied(orders, 0, 3)
    source.commit("billing", orders, 1)
    source.commit("other", orders, 1)
    places = (
        GroupPosition("billing", 0, 4, 4),
        GroupPosition("other", 1, 4, 4),
        GroupPosition("other", 0, 4, None),
    )
    life = source.topics["orders"].topic_id
    made = Rebuild("orders", life, "A.orders", "old", RebuildPhase.COPYING, "x", "", 1, groups=places)
    target.append(TopicPartition(flow.ledger_topic, 0), key=made.key(), value=made.value())
    result = step(group_sync=with_policy(policy))
    assert [
        ("billing", LEFT, SyncReason.RESTORING, None),
        ("other", SYNCED, SyncReason.WRITTEN, 1),
    ] == [(row.group, row.state, row.reason, row.committed_there) for row in result.rows]
    assert ({}, {REMOTE: 1}, 2) == (there(target), there(target, "other"), result.checkpoints)
    done = replace(made, groups=(replace(places[0], restored=True), *places[1:]))
    target.append(TopicPartition(flow.ledger_topic, 0), key=done.key(), value=done.value())
    assert SyncReason.WRITTEN == step().rows[0].reason


def test_a_place_that_the_copy_has_come_to_is_given_back_in_the_same_cycle(
    step, flow, orders, copied, source, target
) -> None:
    """A group that is begun behind the first complete cycle would be put at an end of the log."""
    copied(orders, 0, 3)
    life = source.topics["orders"].topic_id
    places = (GroupPosition("billing", 0, 4, 2),)
    made = Rebuild("orders", life, "A.orders", "old", RebuildPhase.COPYING, "x", "", 1, groups=places)
    target.append(TopicPartition(flow.ledger_topic, 0), key=made.key(), value=made.value())
    step()
    assert {REMOTE: 2} == there(target)
    assert RebuildPhase.DONE is read_ledger(flow, target).rebuilds["orders"].phase


def test_a_place_in_an_earlier_life_of_the_topic_keeps_nobody_waiting(
    step, flow, orders, copied, source, target
) -> None:
    """That life ended before the rebuild could restore it: its offsets are others'."""
    copied(orders, 0, 3)
    source.commit("billing", orders, 1)
    life = Incarnation(
        "orders", source.topics["orders"].topic_id, 5, "A.orders", reason=IncarnationReason.APPEND
    )
    places = (GroupPosition("billing", 0, 4, 4),)
    made = Rebuild("orders", "earlier", "A.orders", "old", RebuildPhase.COPYING, "x", "", 1, groups=places)
    for it in (life, made):
        target.append(TopicPartition(flow.ledger_topic, 0), key=it.key(), value=it.value())
    assert SyncReason.WRITTEN == only(step()).reason
    assert {REMOTE: 1} == there(target)


@pytest.mark.parametrize(
    ("began", "since_ms", "reason", "expected"),
    [
        (IncarnationReason.REBUILD, 5_000, SyncReason.WRITTEN, []),
        (IncarnationReason.REBUILD, 5_001, SyncReason.READ_ON_THERE, [3]),
        (IncarnationReason.FIRST_SEEN, 5_001, SyncReason.WRITTEN, []),
    ],
)
def test_a_checkpoint_from_before_the_copy_counts_for_nothing(
    step, flow, orders, copied, source, target, began, since_ms, reason, expected
) -> None:
    """MM2's rule would leave one that lies further on; and what it says is not a place we put the group.

    One that MM2 wrote before a take-over, of the copy that was there, counts.
    """
    copied(orders, 0, 5)
    source.commit("billing", orders, 3)
    target.commit("billing", REMOTE, 5)
    old = Checkpoint("billing", "A.orders", 0, 3, 5)
    target.append(TopicPartition(TOPIC, 0), key=old.key(), value=old.value(), timestamp=5_000)
    life = Incarnation("orders", source.topics["orders"].topic_id, since_ms, "A.orders", reason=began)
    target.append(TopicPartition(flow.ledger_topic, 0), key=life.key(), value=life.value())
    assert reason == only(step(group_sync=with_policy("follow"))).reason
    assert expected == [it.downstream_offset for it in written(target)[1:]]
    assert 0 == step().checkpoints
