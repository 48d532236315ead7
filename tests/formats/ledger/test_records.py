"""The ledger's records come back as they were written; what is not known is never guessed."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_documents import closed
from jsonschema import Draft202012Validator

from strategies import int32s, names
from twinlog.errors import FormatError
from twinlog.formats.ledger.accepted import Waiver
from twinlog.formats.ledger.gate import GateOutcome, KnownSource, KnownTopic, RiskSample
from twinlog.formats.ledger.metadata import AclGrant, AclsAdded, PlanApplied, QuotasSet, TopicConfigsSet
from twinlog.formats.ledger.records import (
    CycleReport,
    FlowPhase,
    FlowState,
    Gap,
    GapCause,
    Incarnation,
    LaneFence,
    Quarantine,
    parse_ledger,
)
from twinlog.formats.ledger.recovery import (
    DeniedWrite,
    DrillRun,
    DrillState,
    JournalEntry,
    PromotionPlan,
    RecoveryRun,
    RunState,
    StepState,
    TailExported,
)
from twinlog.formats.ledger.topics import (
    Beginning,
    DeletedTopic,
    GroupPosition,
    IncarnationReason,
    LeaderEpoch,
    OffsetsAltered,
    Rebuild,
    RebuildPhase,
    TopicPause,
)
from twinlog.formats.ledger.writers import CopyOutcome, FlowClaim, ReverseFlow

POSITIONS = (GroupPosition("g", 0, 5, 6),)
BYTES = [
    (
        LaneFence("run-1", 2, 7),
        '["lane-fence"]',
        '{"version":1,"run_id":"run-1","lane_count":2,"at_ms":7}',
    ),
    (
        FlowClaim("A->B", "a-id", "b-id", 7),
        '["flow-claim","A->B"]',
        '{"version":1,"flow":"A->B","source_cluster_id":"a-id","target_cluster_id":"b-id","at_ms":7,"by":"",'
        '"reason":""}',
    ),
    (
        ReverseFlow("mm2-ledger.B.internal", "id", 7),
        '["reverse-flow","id"]',
        '{"version":1,"ledger_topic":"mm2-ledger.B.internal","ledger_topic_id":"id","since_ms":7}',
    ),
    (
        Incarnation("t", "id", 7, "A.t"),
        '["incarnation","t","id"]',
        '{"version":1,"topic":"t","topic_id":"id","since_ms":7,"remote_topic":"A.t","remote_topic_id":"",'
        '"source_cluster_id":"","number":1,"reason":"first-seen"}',
    ),
    (
        Gap("t", 0, 5, 9, GapCause.DELETE_RECORDS, 7, 5, "id"),
        '["gap","t","id",0,5]',
        '{"version":1,"topic":"t","partition":0,"first_offset":5,"last_offset":9,"cause":"delete-records",'
        '"at_ms":7,"records_estimate":5,"topic_id":"id","first_ms":null,"last_ms":null,"copied_past":false,"grown_ms":null,"kept_from":null,"kept_end":null}',
    ),
    (
        Beginning("t", "id", {"0": 5}, {"0": 5}, 7),
        '["beginning","t","id"]',
        '{"version":1,"topic":"t","topic_id":"id","offsets":{"0":5},"log_starts":{"0":5},"at_ms":7,'
        '"into_empty":false}',
    ),
    (
        LeaderEpoch("t", "id", 0, 3, 5),
        '["leader-epoch","t","id",0]',
        '{"version":1,"topic":"t","topic_id":"id","partition":0,"epoch":3,"since_offset":5}',
    ),
    (
        TopicPause("t", 7, "jo", "load"),
        '["topic-pause","t"]',
        '{"version":1,"topic":"t","since_ms":7,"by":"jo","reason":"load"}',
    ),
    (
        DeletedTopic("t", "id", "A.t", 7),
        '["deleted-topic","t"]',
        '{"version":1,"topic":"t","topic_id":"id","remote_topic":"A.t","first_seen_ms":7}',
    ),
    (
        Rebuild("t", "id", "A.t", "old", RebuildPhase.DELETING, "jo", "why", 7, {"a": "b"}, POSITIONS),
        '["rebuild","t"]',
        '{"version":1,"topic":"t","topic_id":"id","remote_topic":"A.t","old_remote_topic_id":"old",'
        '"phase":"deleting","by":"jo","reason":"why","at_ms":7,"configs":{"a":"b"},"groups":[{"group":"g",'
        '"partition":0,"downstream":5,"upstream":6,"restored":false}],"request":"","joined":[]}',
    ),
    (
        FlowState(
            FlowPhase.FAILING_OVER, 7, "jo", "drill", before=FlowState(FlowPhase.PAUSED, 1, "ann", "why")
        ),
        '["flow-state"]',
        '{"version":1,"state":"failing-over","since_ms":7,"by":"jo","reason":"drill","run":"","cycles":false,'
        '"before":{"state":"paused","since_ms":1,"by":"ann","reason":"why","run":"","cycles":false,"before":null}}',
    ),
    (
        RecoveryRun(
            "r",
            "planned",
            RunState.OPEN,
            "jo",
            "h",
            7,
            8,
            journal=(JournalEntry("gate", StepState.FAILED, 8, 0.5, "jo", "no"),),
            denied=(DeniedWrite("orders", "User:*", "*"),),
        ),
        '["recovery","r"]',
        '{"version":1,"run":"r","mode":"planned","state":"open","by":"jo","holder":"h","started_ms":7,"at_ms":8,'
        '"promoted_ms":null,"ended_ms":null,"journal":[{"step":"gate","state":"failed","at_ms":8,"seconds":0.5,'
        '"by":"jo","message":"no","host":""}],"denied":[{"topic":"orders","principal":"User:*","host":"*","keeps_rest":false}],'
        '"at_risk_records":null,"rpo_seconds":null,"cleared":false,"evidence":"","evidence_sha256":"","failover":"",'
        '"groups_at_ms":null,"home":"","denied_on_target":[],"denying":"",'
        '"consistent_cut":false,"untold":false,"known":null,"begun_as":"","answered":null}',
    ),
    (
        OffsetsAltered("t", "id", 0, 7, 10, 20, "jo", "bad", "run"),
        '["offsets-altered","t","id",0,7]',
        '{"version":1,"topic":"t","topic_id":"id","partition":0,"at_ms":7,"from_offset":10,"to_offset":20,"by":"jo",'
        '"reason":"bad","run_id":"run"}',
    ),
    (
        TailExported("orders", "id", 1, "r", 5, 9, 3, 7),
        '["tail","orders",1]',
        '{"version":1,"topic":"orders","topic_id":"id","partition":1,"run":"r","first":5,"next_offset":9,"records":3,'
        '"at_ms":7}',
    ),
    (
        DrillRun("r", DrillState.OPEN, "jo", 7, 8, ("r-g",), 1, 0.5, None, "why"),
        '["drill","r"]',
        '{"version":1,"run":"r","state":"open","by":"jo","started_ms":7,"at_ms":8,"clones":["r-g"],"groups":1,'
        '"rto_seconds":0.5,"rpo_seconds":null,"message":"why","driver":""}',
    ),
    (
        PromotionPlan(7, {"changes": []}),
        '["promotion-plan"]',
        '{"version":1,"at_ms":7,"document":{"changes":[]}}',
    ),
    (
        CycleReport("run-1", {"records": 3}, 7),
        '["cycle-report"]',
        '{"version":1,"run_id":"run-1","summary":{"records":3},"at_ms":7}',
    ),
    (
        CopyOutcome("run-1", {"t": {"0": 3}}, {"t": {"1": "why"}}, ({"topic": "t", "partition": 2},), 7),
        '["copy-outcome"]',
        '{"version":1,"run_id":"run-1","copied":{"t":{"0":3}},"errors":{"t":{"1":"why"}},'
        '"stopped":[{"topic":"t","partition":2}],"at_ms":7}',
    ),
    (
        Quarantine("t", 0, 5, "too big", 7),
        '["quarantine","t","",0,5]',
        '{"version":1,"topic":"t","partition":0,"offset":5,"reason":"too big","at_ms":7,"topic_id":""}',
    ),
    (
        Waiver("open-gaps", "t", "old news", "jo", 9, 7),
        '["waiver","open-gaps","t"]',
        '{"version":1,"check":"open-gaps","subject":"t","reason":"old news","by":"jo","until_ms":9,"at_ms":7}',
    ),
    (
        GateOutcome("planned", False, 7, ("lag",), (), "ab"),
        '["gate","planned"]',
        '{"version":1,"mode":"planned","ready":false,"at_ms":7,"failed":["lag"],"waived":[],'
        '"evidence_sha256":"ab"}',
    ),
    (
        RiskSample(3, 7, 5, None, 9),
        '["risk",3]',
        '{"version":1,"slot":3,"at_ms":7,"records":5,"bytes":null,"age_ms":9,"age_known":true,"copied":null}',
    ),
    (
        KnownSource(7, 2, (KnownTopic("t", 1, 5, 9, None, ("x",)),)),
        '["known-source"]',
        '{"version":1,"at_ms":7,"topic_count":2,"topics":[{"topic":"t","partitions":1,"records_at_risk":5,'
        '"bytes_at_risk":9,"oldest_ms":null,"drift":["x"],"unread":0,"undecided":0,"undecided_ms":null,"held_by":""}],'
        '"undecided_seen":false,"left_behind":null}',
    ),
    (
        TopicConfigsSet("A.t", {"retention.ms": "5"}, 7),
        '["topic-configs-set","A.t"]',
        '{"version":1,"remote_topic":"A.t","configs":{"retention.ms":"5"},"at_ms":7}',
    ),
    (
        AclsAdded("TOPIC", "LITERAL", "A.t", (AclGrant("User:jo", "*", "READ", "ALLOW"),), 7),
        '["acls-added","TOPIC","LITERAL","A.t"]',
        '{"version":1,"resource_type":"TOPIC","pattern":"LITERAL","name":"A.t","grants":[{"principal":"User:jo",'
        '"host":"*","operation":"READ","permission":"ALLOW"}],"at_ms":7}',
    ),
    (
        QuotasSet({"user": "jo", "client-id": None}, {"producer_byte_rate": 5.5}, 7),
        '["quotas-set",{"user":"jo","client-id":null}]',
        '{"version":1,"entity":{"user":"jo","client-id":null},"quotas":{"producer_byte_rate":5.5},"at_ms":7}',
    ),
    (
        PlanApplied("d1", "promoted", 3, 7),
        '["metadata-plan-applied","d1"]',
        '{"version":1,"digest":"d1","profile":"promoted","changes":3,"at_ms":7}',
    ),
]
numbers = st.integers(0, 1 << 62)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner) | st.dictionaries(names, inner),
)
offsets = st.dictionaries(int32s.map(str), numbers)
positions = st.builds(GroupPosition, names, int32s, numbers, st.none() | numbers, st.booleans())
records = (
    st.builds(LaneFence, names, numbers, numbers)
    | st.builds(
        Incarnation, names, names, numbers, names, names, names, numbers, st.sampled_from(IncarnationReason)
    )
    | st.builds(
        Gap,
        names,
        int32s,
        numbers,
        numbers,
        st.sampled_from(GapCause),
        numbers,
        numbers,
        names,
        st.none() | numbers,
        st.none() | numbers,
        st.booleans(),
    )
    | st.builds(Beginning, names, names, offsets, offsets, numbers)
    | st.builds(LeaderEpoch, names, names, int32s, int32s, numbers)
    | st.builds(TopicPause, names, numbers, names, names)
    | st.builds(DeletedTopic, names, names, names, numbers)
    | st.builds(
        Rebuild,
        names,
        names,
        names,
        names,
        st.sampled_from(RebuildPhase),
        names,
        names,
        numbers,
        st.dictionaries(names, names),
        st.lists(positions).map(tuple),
    )
    | st.builds(FlowState, st.sampled_from(FlowPhase), numbers, names, names)
    | st.builds(CycleReport, names, st.dictionaries(names, json_values), numbers)
    | st.builds(
        CopyOutcome,
        names,
        st.dictionaries(names, st.dictionaries(names, numbers)),
        st.dictionaries(names, st.dictionaries(names, names)),
        st.lists(st.dictionaries(names, json_values)).map(tuple),
        numbers,
    )
    | st.builds(Quarantine, names, int32s, numbers, names, numbers, names)
    | st.builds(TopicConfigsSet, names, st.dictionaries(names, names), numbers)
    | st.builds(
        AclsAdded,
        *(names, names, names),
        st.lists(st.builds(AclGrant, names, names, names, names)).map(tuple),
        numbers,
    )
    | st.builds(
        QuotasSet,
        st.dictionaries(names, st.none() | names),
        st.dictionaries(names, st.floats(0, 1e12)),
        numbers,
    )
    | st.builds(PlanApplied, names, names, numbers, numbers)
)


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_the_bytes_of_a_record_stay(record, key, value):
    """A ledger must be read by every later release; both ways."""
    assert (record.key().decode(), record.value().decode()) == (key, value)
    assert parse_ledger(key.encode(), value.encode()) == record


@pytest.mark.parametrize("value", [value for _, _, value in BYTES])
def test_the_schema_takes_what_is_written(value):
    """docs/json/ledger.schema.json has every field, with its type."""
    Draft202012Validator(closed("ledger")).validate(json.loads(value))


def test_a_run_of_an_earlier_release_has_no_host():
    """It is "", unknown, and so is the mode it was begun in."""
    record, key, value = next(it for it in BYTES if '["recovery"' in it[1])
    old = value.replace(',"host":""}', "}").replace(',"begun_as":"","answered":null', "")
    assert old != value
    assert record == parse_ledger(key.encode(), old.encode())


@given(records)
def test_reading_undoes_writing(record):
    """Every kind."""
    assert parse_ledger(record.key(), record.value()) == record


@given(records)
def test_a_tombstone_is_none(record):
    """A null value forgets the record."""
    assert parse_ledger(record.key(), None) is None


@given(records)
def test_fields_of_later_releases_are_ignored(record):
    """Adding a field needs no new version."""
    value = json.loads(record.value()) | {"added later": 1}
    assert parse_ledger(record.key(), json.dumps(value).encode()) == record


@pytest.mark.parametrize("record", [record for record, _, _ in BYTES])
def test_every_truncation_raises(record):
    """No shorter bytes pass for a record."""
    key, value = record.key(), record.value()
    for cut in range(len(key)):
        with pytest.raises(FormatError):
            parse_ledger(key[:cut], value)
    for cut in range(len(value)):
        with pytest.raises(FormatError):
            parse_ledger(key, value[:cut])


@pytest.mark.parametrize("record", [record for record, _, _ in BYTES])
def test_every_field_must_be_there(record):
    """Except those with a default, which were added later."""
    required = [
        it.name
        for it in dataclasses.fields(record)
        if it.default is dataclasses.MISSING and it.default_factory is dataclasses.MISSING
    ]
    for name in ["version", *required]:
        value = json.loads(record.value())
        del value[name]
        with pytest.raises(FormatError):
            parse_ledger(record.key(), json.dumps(value).encode())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b'["moon-phase"]', b"{}", "unknown kind 'moon-phase'"),
        (b"{}", b"{}", "not an array that begins with a kind"),
        (b"[1]", b"{}", "not an array that begins with a kind"),
        (b'["flow-state"]', b'{"version":2}', "version 2; only version 1 is known"),
        (b'["flow-state"]', b'{"version":true}', "version True"),
        (b'["flow-state"]', b"[]", "version None"),
        (b'["flow-state"]', b'{"version":1,"state":"asleep","since_ms":1,"by":"","reason":""}', "state"),
        (b'["lane-fence"]', b'{"version":1,"run_id":"r","lane_count":"2","at_ms":1}', "lane_count"),
        (
            b'["incarnation","x","id"]',
            b'{"version":1,"topic":"t","topic_id":"id","since_ms":7,"remote_topic":"A.t"}',
            "another's key",
        ),
    ],
)
def test_what_is_not_a_known_record_is_named(key, value, words):
    """Unknown kinds and versions, wrong types, and values under a key that is not theirs."""
    with pytest.raises(FormatError, match=words.replace("[", r"\[")):
        parse_ledger(key, value)


def test_a_picture_of_the_source_from_before_unread_partitions_were_noted_is_read():
    """It said nothing of them; and a field that a later release adds is passed over."""
    known = (
        b'{"version":1,"at_ms":7,"topic_count":2,"topics":[{"topic":"t","partitions":1,"records_at_risk":5,'
    )
    known += b'"bytes_at_risk":9,"oldest_ms":null,"drift":[]%s}]}'
    expected = KnownSource(7, 2, (KnownTopic("t", 1, 5, 9, None),))
    for more in (b"", b',"from-later":3'):
        assert expected == parse_ledger(b'["known-source"]', known % more)
