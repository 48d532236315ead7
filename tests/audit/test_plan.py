"""What an audit compares, and what it goes on from."""

from __future__ import annotations

import dataclasses

import pytest

from twinlog.audit.deleted_early import DeletedEarly
from twinlog.audit.plan import AuditPlan, plan
from twinlog.audit.problems import AuditState
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.formats.ledger.audit import (
    PartitionAudit,
    Unproved,
    UnprovedSpan,
)
from twinlog.formats.ledger.records import FlowPhase, FlowState, Incarnation
from twinlog.formats.ledger.recovery import TailExported
from twinlog.formats.ledger.topics import CopiedThrough
from twinlog.formats.ledger.writers import TakenOver
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.state.ledger import Ledger, ledger_from
from twinlog.state.progress import Maps
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, RemoteTopic
from twinlog.transforms.chain import Chain, Filter, RecordIsTombstone, Step

FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))
LIFE = SourceIncarnation("t", "id", 0)
MAP = OffsetMap.of([MapSegment(0, 120, (Extent(0, 0, 50), Extent(60, 51, 50)))])
"""A marker at downstream 50 and 101, upstream 50 to 59 and 110 to 119 without copies."""
SOURCE, TARGET = PartitionOffsets(0, 130, 140), PartitionOffsets(0, 102, 102)
REMOTE = RemoteTopic("rid", 1)
BEFORE = PartitionAudit("t", "id", 0, "A.t", "rid", 0, 60, 51, 50, 50, 0, (), 0, (), 7)


def state(
    ledger: Ledger | None = None,
    *,
    maps: dict[SourceIncarnation, OffsetMap] | None = None,
    source: PartitionOffsets = SOURCE,
    target: PartitionOffsets = TARGET,
    remote: RemoteTopic | None = REMOTE,
    topic_id: str = "id",
    map_ends: int | None = 120,
) -> AuditState:
    partition = DiscoveredPartition("t", topic_id, 0, source, target if remote else None)
    topic = DiscoveredTopic("t", topic_id, "A.t", 1, (partition,), remote)
    discovery = Discovery("A->B", "a", "b", 1, (topic,), (), ())
    found = Maps({LIFE: MAP} if maps is None else maps, {})
    progress = {TopicPartition("t", 0): 119}
    ends = {} if map_ends is None else {LIFE: map_ends}
    return AuditState(discovery, ledger or Ledger(), found, progress, ends, ())


def ranges(decided: AuditPlan) -> list[tuple[int, int, int, int]]:
    (partition,) = decided.partitions
    return [
        (it.scope.start, it.scope.end, it.scope.downstream_start, it.scope.downstream_end)
        for it in partition.specs
    ]


def asked(mode: AuditMode) -> AuditRequest:
    return AuditRequest(mode)


def test_the_first_audit_compares_all_there_is():
    """Up to the target's end: nobody else should have written there."""
    assert [(0, 120, 0, 102)] == ranges(plan(FLOW, state(), AuditRequest()))


def test_what_was_copied_while_the_ends_were_read_is_left_to_the_next_audit():
    """The map knows more than stood below the ends; strangers behind it are looked for then, too."""
    assert [(0, 80, 0, 71)] == ranges(plan(FLOW, state(map_ends=80), AuditRequest()))
    ledger = ledger_from([BEFORE])
    assert [] == ranges(plan(FLOW, state(ledger, map_ends=60), AuditRequest()))
    (moving,) = plan(FLOW, state(ledger, map_ends=80), AuditRequest()).partitions
    assert (0, 80, 71) == (moving.start, moving.end, moving.downstream_end)


def test_what_was_first_copied_while_the_ends_were_read_is_left_to_the_next_audit():
    """A partition that had no map a moment before; nothing of it is below the ends that were read."""
    (new,) = plan(FLOW, state(map_ends=None), AuditRequest()).partitions
    assert ((), 0, 0) == (new.specs, new.start, new.end)


def test_what_could_not_be_compared_ends_where_its_copies_do():
    """The source has nothing of it left; the next audit begins behind it, and calls none of it a stranger's."""
    expired = PartitionOffsets(120, 130, 140)
    (gone,) = plan(
        FLOW, state(source=expired, target=PartitionOffsets(0, 101, 101)), AuditRequest()
    ).partitions
    assert ((), 120, 101) == (gone.specs, gone.end, gone.downstream_end)
    earlier = OffsetMap.of([MapSegment(20, 40, (Extent(20, 300, 10),))])
    (new,) = plan(FLOW, state(maps={LIFE: earlier}, map_ends=None), AuditRequest()).partitions
    assert ((), 20, 300) == (new.specs, new.end, new.downstream_end)


@pytest.mark.parametrize("phase", [FlowPhase.PROMOTED, FlowPhase.FAILING_BACK])
def test_behind_the_copies_of_a_promoted_flow_clients_write(phase):
    """Audits neither look there nor note that they did; the way home asks for it by name."""
    served = PartitionOffsets(0, 150, 150)
    promoted, again = FlowState(phase, 5, "jo", "why"), FlowState(FlowPhase.ACTIVE, 9, "jo", "why")
    decided = plan(FLOW, state(ledger_from([promoted]), target=served), AuditRequest())
    assert ([(0, 120, 0, 101)], True) == (ranges(decided), decided.left_to_clients)
    (partition,) = decided.partitions
    noted = dataclasses.replace(BEFORE, end=partition.end, downstream_end=partition.downstream_end)
    nothing = plan(FLOW, state(ledger_from([promoted, noted]), target=served), AuditRequest())
    assert ([], [101]) == (ranges(nothing), [it.downstream_end for it in nothing.partitions])
    asked_for = plan(FLOW, state(ledger_from([promoted, noted]), target=served), AuditRequest(behind=True))
    assert ([(120, 120, 101, 150)], False) == (ranges(asked_for), asked_for.left_to_clients)
    following = plan(FLOW, state(ledger_from([noted, again]), target=served), AuditRequest())
    assert ([(120, 120, 101, 150)], False) == (ranges(following), following.left_to_clients)


def test_it_goes_on_where_the_last_one_ended():
    """Upstream and downstream; a full one begins anew."""
    ledger = ledger_from([BEFORE])
    assert [(60, 120, 51, 102)] == ranges(plan(FLOW, state(ledger), AuditRequest()))
    assert [(0, 120, 0, 102)] == ranges(plan(FLOW, state(ledger), asked(AuditMode.FULL)))


def test_a_copy_made_anew_begins_anew():
    """What was proved was another topic of the same name."""
    ledger = ledger_from([dataclasses.replace(BEFORE, remote_topic_id="another")])
    assert [(0, 120, 0, 102)] == ranges(plan(FLOW, state(ledger), AuditRequest()))


def test_a_stranger_in_front_of_the_first_new_record_is_looked_for():
    """The last audit judged up to 40; the first new record stands at 51."""
    ledger = ledger_from([dataclasses.replace(BEFORE, downstream_end=40)])
    assert [(60, 120, 40, 102)] == ranges(plan(FLOW, state(ledger), AuditRequest()))


@pytest.mark.parametrize("mode", [AuditMode.INCREMENTAL, AuditMode.FULL])
@pytest.mark.parametrize(
    ("source_start", "target_start", "expected", "beyond"),
    [
        (80, 0, (80, 120, 51, 102), [(51, 71)]),
        (80, 60, (80, 120, 60, 102), [(51, 71)]),
        (80, 80, (89, 120, 80, 102), [(51, 80)]),
        (130, 0, (120, 120, 51, 102), [(51, 101)]),
    ],
)
def test_strangers_are_looked_for_behind_the_last_audit_though_the_source_has_lost_more(
    mode, source_start, target_start, expected, beyond
):
    """As far as the target still goes; the copies there are nobody else's, and nothing can be compared with them."""
    seen = state(
        ledger_from([BEFORE]),
        source=PartitionOffsets(source_start, 130, 140),
        target=PartitionOffsets(target_start, 102, 102),
    )
    decided = plan(FLOW, seen, asked(mode))
    (spec,) = decided.partitions[0].specs
    spans = spec.scope.beyond
    assert [expected] == ranges(decided)
    assert beyond == list(zip(spans.firsts.tolist(), spans.ends.tolist(), strict=True))


def test_nothing_new_looks_at_the_tail_alone():
    """Upstream there is nothing, downstream what came behind the last audit."""
    ledger = ledger_from([dataclasses.replace(BEFORE, end=120, downstream_end=102)])
    later = state(ledger, target=PartitionOffsets(0, 105, 105))
    assert [(120, 120, 102, 105)] == ranges(plan(FLOW, later, AuditRequest()))
    assert [] == ranges(plan(FLOW, state(ledger), AuditRequest()))


@pytest.mark.parametrize(
    ("source_start", "target_start", "expected", "unproved"),
    [
        (20, 0, (20, 120, 20, 102), [UnprovedSpan(0, 20, 20, Unproved.SOURCE_RETENTION)]),
        (0, 20, (20, 120, 20, 102), [UnprovedSpan(0, 20, 20, Unproved.TARGET_RETENTION)]),
        (0, 50, (60, 120, 51, 102), [UnprovedSpan(0, 60, 50, Unproved.TARGET_RETENTION)]),
        (20, 60, (69, 120, 60, 102), [UnprovedSpan(0, 69, 59, Unproved.TARGET_RETENTION)]),
    ],
)
def test_what_has_expired_is_not_read(source_start, target_start, expected, unproved):
    """It is known beforehand that nothing can be said of it."""
    seen = state(
        source=PartitionOffsets(source_start, 130, 140), target=PartitionOffsets(target_start, 102, 102)
    )
    decided = plan(FLOW, seen, AuditRequest())
    assert ([expected], unproved) == (ranges(decided), list(decided.partitions[0].unproved))


def test_what_was_proved_and_has_expired_since_is_said():
    """An audit that goes on, too, says what the copy no longer has: before, that counted as proved for ever."""
    seen = state(ledger_from([BEFORE]), target=PartitionOffsets(30, 102, 102))
    (it,) = plan(FLOW, seen, AuditRequest()).partitions
    assert [UnprovedSpan(0, 30, 30, Unproved.TARGET_RETENTION)] == list(it.unproved)


@pytest.mark.parametrize("mode", [AuditMode.INCREMENTAL, AuditMode.FULL])
def test_what_was_deleted_early_is_a_problem(mode):
    """The rest in front of it is the copy's retention; earlier audits that said otherwise are outdated."""
    early = DeletedEarly(20, 30, 10, 30)
    span = UnprovedSpan(0, 25, 25, Unproved.DELETED_EARLY)
    seen = state(
        ledger_from([dataclasses.replace(BEFORE, unproved=(span,))]), target=PartitionOffsets(30, 102, 102)
    )
    seen = dataclasses.replace(seen, early={TopicPartition("t", 0): early})
    decided = plan(FLOW, seen, asked(mode))
    (it,) = decided.partitions
    kept = it.before.unproved if it.before is not None else ()
    assert (["deleted-early"], ()) == ([one.code for one in decided.problems], kept)
    assert [
        UnprovedSpan(20, 30, 10, Unproved.DELETED_EARLY),
        UnprovedSpan(0, 30, 20, Unproved.TARGET_RETENTION),
    ] == list(it.unproved)


def test_everything_has_expired():
    """There is a row for it, and nothing to read but the tail."""
    decided = plan(FLOW, state(source=PartitionOffsets(140, 140, 140)), AuditRequest())
    assert [(120, 120, 101, 102)] == ranges(decided)
    assert [UnprovedSpan(0, 120, 100, Unproved.SOURCE_RETENTION)] == list(decided.partitions[0].unproved)


def test_what_the_map_does_not_reach_is_said():
    """The source still has records from before the map."""
    late = OffsetMap.of([MapSegment(60, 120, (Extent(60, 51, 50),))])
    decided = plan(FLOW, state(maps={LIFE: late}), AuditRequest())
    assert [UnprovedSpan(0, 60, 60, Unproved.NO_MAP)] == list(decided.partitions[0].unproved)
    assert [(60, 120, 51, 102)] == ranges(decided)


@pytest.mark.parametrize(
    ("source_start", "target_start", "expected"),
    [
        (0, 1, UnprovedSpan(0, 60, 50, Unproved.NO_MAP)),
        (0, 50, UnprovedSpan(0, 60, 1, Unproved.NO_MAP)),
        (55, 1, UnprovedSpan(55, 60, 5, Unproved.NO_MAP)),
        (0, 51, UnprovedSpan(0, 60, 60, Unproved.TARGET_RETENTION)),
    ],
)
def test_what_stands_in_front_of_the_map_has_not_expired(source_start, target_start, expected):
    """A copy that MM2 made and that has lost its oldest records: the others in front of the map stand there."""
    late = OffsetMap.of([MapSegment(60, 120, (Extent(60, 51, 50),))])
    seen = state(
        maps={LIFE: late},
        source=PartitionOffsets(source_start, 130, 140),
        target=PartitionOffsets(target_start, 102, 102),
    )
    assert [expected] == list(plan(FLOW, seen, AuditRequest()).partitions[0].unproved)


def test_what_the_map_has_lost_is_a_problem():
    """Copied by progress, held by the copy, covered by no piece: said anew by each audit, and never as no-map."""
    holed = OffsetMap.of([MapSegment(0, 50, (Extent(0, 0, 50),)), MapSegment(60, 120, (Extent(60, 57, 44),))])
    lost = UnprovedSpan(50, 60, 7, Unproved.MAP_LOST)
    decided = plan(FLOW, state(maps={LIFE: holed}), AuditRequest())
    (partition,) = decided.partitions
    assert (["map-lost"], [lost]) == ([it.code for it in decided.problems], list(partition.unproved))
    assert [((50, 60),)] == [it.scope.lost for it in partition.specs]
    before = dataclasses.replace(BEFORE, unproved=(dataclasses.replace(lost, records=3),))
    later = plan(FLOW, state(ledger_from([before]), maps={LIFE: holed}), AuditRequest())
    (partition,) = later.partitions
    assert (["map-lost"], (), (lost,)) == (
        [it.code for it in later.problems],
        partition.before.unproved,
        partition.unproved,
    )


def test_a_newest_piece_that_was_lost_is_a_problem():
    """Progress says that more was copied than the map covers."""
    short = OffsetMap.of([MapSegment(0, 50, (Extent(0, 0, 50),))])
    decided = plan(FLOW, state(maps={LIFE: short}, map_ends=50), AuditRequest())
    assert [("map-lost", "t")] == [(it.code, it.topic) for it in decided.problems]
    assert "upstream offsets 50 to 119" in decided.problems[0].message


def test_an_audit_without_a_record_left_says_so():
    """The copy has expired: nothing is there to be compared."""
    decided = plan(FLOW, state(target=PartitionOffsets(102, 102, 102)), AuditRequest())
    assert ([0], ["nothing-copied"]) == (
        [it.held for it in decided.partitions],
        [it.code for it in decided.problems],
    )


def test_an_earlier_life_is_compared_but_proves_nothing():
    """The topic was made anew; its copy is still that of the life before."""
    ledger = ledger_from([Incarnation("t", "id", 1, "A.t")])
    decided = plan(FLOW, state(ledger, topic_id="new"), AuditRequest())
    assert (["recreated"], [False]) == (
        [it.code for it in decided.problems],
        [it.claims for it in decided.partitions],
    )


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("no-map", {"maps": {}}),
        ("copy-deleted", {"remote": None}),
    ],
)
def test_what_stands_against_an_audit(expected, changes):
    """One clear problem for the topic."""
    decided = plan(FLOW, state(**changes), AuditRequest())
    assert ([expected], ()) == ([it.code for it in decided.problems], decided.partitions)


def test_nothing_copied_is_not_equal():
    """Nothing to compare proves nothing."""
    empty = dataclasses.replace(state(maps={}), progress={})
    assert ["nothing-copied"] == [it.code for it in plan(FLOW, empty, AuditRequest()).problems]


@pytest.mark.parametrize(
    ("downstream", "expected"), [(0, 0), (1, 1), (49, 49), (50, 60), (51, 60), (100, 109), (101, 120)]
)
def test_where_the_source_of_a_downstream_offset_is(downstream, expected):
    """Or of the first one behind it."""
    assert expected == MAP.first_upstream_at(downstream)


NO_TOMBSTONES = Chain((Step(Filter(), RecordIsTombstone()),))


@pytest.mark.parametrize(
    ("chain", "noted", "compared", "unproved"),
    [
        (NO_TOMBSTONES, (NO_TOMBSTONES.print, 0), [(0, 120)], []),
        (NO_TOMBSTONES, (NO_TOMBSTONES.print, 60), [(60, 120)], [(0, 60, 50)]),
        (NO_TOMBSTONES, ("other", 60), [], [(0, 120, 100)]),
        (NO_TOMBSTONES, None, [], [(0, 120, 100)]),
        (Chain(), None, [(0, 120)], []),
        (Chain(), ("", 60), [(60, 120)], [(0, 60, 50)]),
        (Chain(), ("other", 60), [], [(0, 120, 100)]),
    ],
)
def test_records_copied_under_another_chain_are_not_compared(chain, noted, compared, unproved):
    """They are neither equal nor different: their own chain is not known any more."""
    ledger = ledger_from([CopiedThrough("t", "id", 0, *noted)] if noted else [])
    flow = dataclasses.replace(FLOW, transforms=chain)
    (decided,) = plan(flow, state(ledger), AuditRequest(AuditMode.FULL)).partitions
    scopes = [it.scope for it in decided.specs if it.scope.start < it.scope.end]
    assert compared == [(it.start, it.end) for it in scopes]
    assert all(it.chain == chain for it in scopes)
    assert [(*it, Unproved.OTHER_CHAIN) for it in unproved] == [
        (it.start, it.end, it.records, it.reason) for it in decided.unproved
    ]


def test_an_audit_under_the_earlier_chain_still_stands():
    """Its records were compared with what that chain made of them; only what it did not reach is unproved."""
    ledger = ledger_from([BEFORE, CopiedThrough("t", "id", 0, NO_TOMBSTONES.print, 80)])
    flow = dataclasses.replace(FLOW, transforms=NO_TOMBSTONES)
    (decided,) = plan(flow, state(ledger), AuditRequest()).partitions
    assert [UnprovedSpan(60, 80, 20, Unproved.OTHER_CHAIN)] == list(decided.unproved)
    assert (BEFORE, [(80, 120)]) == (
        decided.before,
        [(it.scope.start, it.scope.end) for it in decided.specs],
    )


@pytest.mark.parametrize(("homes", "expected"), [({"t": "A.t"}, ((5, 8),)), (None, ())])
def test_what_a_flow_home_has_exported_has_no_copy(homes, expected):
    """It never comes home; what another flow has exported is copied once that follows again."""
    exported = TailExported("t", "id", 0, "r", 5, 8, 3, 7)
    ledger = ledger_from([exported, dataclasses.replace(exported, partition=1)])
    flow = dataclasses.replace(FLOW, homes=homes)
    (partition,) = plan(flow, state(ledger), AuditRequest()).partitions
    assert [expected] == [it.scope.left_out for it in partition.specs]


@pytest.mark.parametrize(
    ("remote", "observed", "passed_over"), [("A.t", False, True), ("t", False, False), ("t", True, True)]
)
def test_what_an_engine_copied_twice_is_passed_over_if_it_is_known_to_be_the_sources(
    remote: str, observed: bool, passed_over: bool
):
    """Where names are the same only in a copy that was observed."""
    before = state(ledger_from([TakenOver(remote, "rid", 0, 0, 20, 102, 1, observed)]))
    (topic,) = before.discovery.topics
    topics = (dataclasses.replace(topic, remote_topic=remote),)
    before = dataclasses.replace(before, discovery=dataclasses.replace(before.discovery, topics=topics))
    flow = FLOW if remote == "A.t" else dataclasses.replace(FLOW, policy=IdentityReplicationPolicy("A"))
    (partition,) = plan(flow, before, AuditRequest()).partitions
    (spec,) = partition.specs
    # 50 and 101 of the copy are in no map.
    assert [passed_over, passed_over, False] == [spec.scope.beyond.has(it) for it in (50, 101, 60)]
