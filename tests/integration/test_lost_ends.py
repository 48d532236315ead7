"""Ends of transactions that the target lost, left open on a real broker: each is ended as it was, or a person is asked.

Costs half a minute.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from confluent_kafka.admin import ResourceType
from in_turn import in_turn
from test_traps import NOW, brokers, outgoing, values

from lab import Seen, alter_configs, configure, create_topic, cycle, flow_of, produce, read, wait_until
from twinlog.batches.outgoing import Outgoing
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend.outcomes import Outcome
from twinlog.copying.ownership import state_topics
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.map.offset_map import MapKey, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, partition_for, source_offset_key
from twinlog.lane.copy.state_records import StateRecord, batches, map_record, progress_record
from twinlog.lane.fence.fence import init_writer, transactional_id
from twinlog.lane.producer import Lane
from twinlog.lane.transaction import Transaction
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_maps, read_progress

__all__ = ["brokers"]


@pytest.mark.parametrize("sure", [True, False])
def test_an_end_that_was_lost_in_the_copy_is_made_up_for(
    cluster_a: Any,
    cluster_b: Any,
    brokers: Brokers,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    sure: bool,
) -> None:
    """The next commit would take along what is open: it is aborted, or where it may count its partition stops."""
    caplog.set_level(logging.WARNING, "twinlog.copying.mend.copies")
    topic = create_topic(cluster_a, unique_topic("torn"), 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    for partition in (0, 1):
        produce(cluster_a, topic, [Seen(None, b"0", NOW)], partition)
    assert 2 == cycle(flow).records
    for partition in (0, 1):
        produce(cluster_a, topic, [Seen(None, b"1", NOW)], partition)
    leave_open(cluster_b, brokers, flow.name, {(f"A.{topic}", 0): [outgoing(b"torn")]})
    if not sure:
        with mock.patch("twinlog.copying.mend.copies.of_copy", return_value=Outcome.UNKNOWN):
            for copied in (1, 0):
                result = cycle(flow)
                assert ("failed", copied) == (result.state, result.records)
                assert [(0, "lost-marker")] == [(it.partition, it.code) for it in result.stopped]
                assert f"A.{topic}-0 holds records open from offset 2" in result.stopped[0].message
    assert ("done", 2 if sure else 1) == ((result := cycle(flow)).state, result.records)
    assert f"A.{topic}-0: cluster B had lost the end of a transaction that was aborted" in caplog.text
    for partition in (0, 1):
        assert read(cluster_a, topic, partition) == read(cluster_b, f"A.{topic}", partition)


def leave_open(
    cluster: Any, brokers: Brokers, flow: str, written: Mapping[tuple[str, int], Sequence[Outgoing]]
) -> None:
    """Write as lane 0 of a flow what no marker will ever end: the coordinator does not know of it."""
    unverified = {"transaction_partition_verification_enable": "false"}
    probe = {(create_topic(cluster, f"probe-{uuid.uuid4().hex}"), 0): [outgoing(b"probe")]}
    alter_configs(cluster, ResourceType.BROKER, "1", **unverified)
    try:
        # Until the broker has heard that it may take what is not verified, it takes nothing of the probe either.
        wait_until(lambda: _written_unknown_to_the_coordinator(brokers, "probe", probe))
        assert _written_unknown_to_the_coordinator(brokers, flow, written)
    finally:
        alter_configs(cluster, ResourceType.BROKER, "1", **dict.fromkeys(unverified))
    # A request on its way while the broker hears that is refused as not verified, though its partition was added.
    wait_until(lambda: not _written_unknown_to_the_coordinator(brokers, "probe", probe))


def _written_unknown_to_the_coordinator(
    brokers: Brokers, flow: str, written: Mapping[tuple[str, int], Sequence[Outgoing]]
) -> bool:
    lane = Lane(brokers, init_writer(brokers, transactional_id(flow, 0), 10_000))
    with mock.patch.object(Transaction, "_ask_to_add", lambda _, items: dict.fromkeys(items, 0)):
        try:
            return [] == lane.write_state(written)
        except TransientError:
            return False


def own_flow(folder: Path, cluster_a: Any, cluster_b: Any, topic: str) -> FlowSettings:
    """A flow with state topics of its own: what is left open there stops nobody else."""
    alias = f"T{uuid.uuid4().hex[:4]}"
    path = configure(
        folder,
        {alias: cluster_a, "B": cluster_b},
        [f"{alias}->B"],
        topics=topic,
        heartbeats__replication__enabled="false",
    )
    return load(path).flows[f"{alias}->B"]


@pytest.mark.parametrize(
    ("left_open", "rest"),
    [
        ("copy", "committed"),
        ("copy", "aborted"),
        ("progress", "committed"),
        ("copy map", "committed"),
        ("progress map", "aborted"),
        ("copy progress map", "aborted"),
        *in_turn(
            ("progress", "aborted"),
            ("map", "committed"),
            ("map", "aborted"),
            ("copy progress", "committed"),
            ("copy map", "aborted"),
            ("progress map", "committed"),
            ("copy progress", "aborted"),
        ),
    ],
)
def test_a_transaction_that_lost_ends_has_the_end_it_has_elsewhere(
    cluster_a: Any,
    cluster_b: Any,
    brokers: Brokers,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    left_open: str,
    rest: str,
) -> None:
    """Of data, progress and map one is enough to know how the others ended; where none has an end, none counts."""
    topic = create_topic(cluster_a, unique_topic("torn"))
    flow = own_flow(tmp_path, cluster_a, cluster_b, topic)
    produce(cluster_a, topic, [Seen(None, b"0", NOW)])
    assert 1 == cycle(flow).records
    produce(cluster_a, topic, [Seen(None, b"1", NOW)])
    with open_clusters(flow) as clusters:
        state = state_topics(flow, clusters)
        (life,) = read_maps(flow, clusters.target)
    key = MapKey(*life, first_upstream=1)
    parts = {
        "copy": {(f"{flow.source.alias}.{topic}", 0): [outgoing(b"1")]},
        "progress": batches([progress_record(state, topic, 0, 1)], NOW),
        "map": batches([map_record(state, key, encode_segment(MapSegment(1, 2, (Extent(1, 2, 1),))))], NOW),
    }
    opened = {place: it for name in left_open.split() for place, it in parts.pop(name).items()}
    leave_open(cluster_b, brokers, flow.name, opened)
    if parts:
        lane = Lane(brokers, init_writer(brokers, transactional_id(flow.name, 0), 10_000))
        assert [] == lane.write_state({place: it for part in parts.values() for place, it in part.items()})
        (lane.commit if rest == "committed" else lane.abort)()
        lane.await_markers()
    result = cycle(flow)
    assert ((), 0 if rest == "committed" else 1) == (result.stopped, result.records)
    copied = read(cluster_b, f"{flow.source.alias}.{topic}")
    assert read(cluster_a, topic) == copied
    with open_clusters(flow) as clusters:
        known = read_maps(flow, clusters.target)[life]
        assert 1 == read_progress(flow, clusters.target)[topic, 0]
    assert (2, 2 if rest == "committed" else known.end_downstream - 1) == (
        known.end_upstream,
        known.translate(1).offset,
    )


def test_a_transaction_whose_end_was_lost_stops_the_flow(
    cluster_a: Any, cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Nothing else tells whether its progress is true, so nothing is copied or written, until somebody has ended it."""
    topic = create_topic(cluster_a, unique_topic("torn"))
    flow = own_flow(tmp_path, cluster_a, cluster_b, topic)
    alias = flow.source.alias
    produce(cluster_a, topic, [Seen(None, b"0", NOW)])
    assert 1 == cycle(flow).records
    produce(cluster_a, topic, [Seen(None, b"1", NOW)])
    with open_clusters(flow) as clusters:
        state = state_topics(flow, clusters)
    key = source_offset_key(flow.connector_name, alias, 0, topic)
    place = (state.offsets_topic, partition_for(key, state.offsets_partitions))
    record = StateRecord(*place, key, offset_value(7))
    leave_open(cluster_b, brokers, flow.name, batches([record], NOW))
    for _ in range(2):
        with pytest.raises(TerminalError, match=f"the last records of {topic}-0") as caught:
            cycle(flow)
        assert "lost-marker" == caught.value.code
        assert [b"0"] == values(cluster_b, f"{alias}.{topic}")
    lane = Lane(brokers, init_writer(brokers, transactional_id(flow.name, 0), 10_000))
    assert [] == lane.add([place])
    lane.abort()
    assert 1 == cycle(flow).records
    assert [b"0", b"1"] == values(cluster_b, f"{alias}.{topic}")
