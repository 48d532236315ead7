"""What the file leaves out with records that were never copied is found with three questions, however many topics."""

from __future__ import annotations

from collections import Counter

from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Orphan, OrphanKind
from twinlog.topics.left_behind import left_behind


def test_many_topics_cost_one_question_of_each_kind(flow, source, monkeypatch):
    """Each is told apart: what it lacks, that it lacks nothing, or why nobody knows."""
    names = [f"t{number}" for number in range(9)]
    for name in names:
        source.add_topic(name, 2)
        source.append(TopicPartition(name, 1), key=b"k", value=b"v")
    source.refuse("read_records", "t1", ClusterRefused("not to be read"))
    source.refuse("describe_topics", "t2", ClusterRefused("not to be seen"))
    asked = Counter()
    for verb in ("describe_topics", "offsets"):
        whole = getattr(source, verb)

        def counted(*args, verb=verb, whole=whole, **named):
            asked[verb] += 1
            return whole(*args, **named)

        monkeypatch.setattr(source, verb, counted)
    orphans = [Orphan(f"A.{name}", name, OrphanKind.LEFT_OUT, "by the test") for name in names]
    progress = {TopicPartition("t3", 1): 0}
    found = {it.topic: it.message for it in left_behind(flow, source, Ledger(), progress, orphans)}
    assert {"describe_topics": 1, "offsets": 1} == asked
    assert {*names} - {"t3"} == found.keys()
    assert found["t0"] == "t0 is left out (by the test): 1 records of it on A are not in A.t0"
    assert "nobody knows how many records (not to be read)" in found["t1"]
    assert "nobody knows how many records (not to be seen)" in found["t2"]
