"""A target with one replica loses what its disk had not written: the newest records of the copy, of progress, of all.

What a power cut takes is cut off the files of a broker that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from in_turn import in_turn
from stage import Stage
from traffic import PARTITIONS

from lab import cycle, read
from twinlog.cluster.api import open_clusters
from twinlog.copying.mend.tails import LOST_PROGRESS, LOST_TAIL
from twinlog.copying.ownership import state_topics
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import map_partition, progress_record
from twinlog.lifecycle import rebuild

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

ONE_TRANSACTION = {"twinlog__transaction__bytes": "100000000"}
"""A cycle is one transaction: what it wrote is lost as a whole."""


@pytest.mark.parametrize("lost", in_turn("copy", "progress"))
def test_a_loss_stops_its_partitions_and_no_others(stage: Callable[..., Stage], lost: str) -> None:
    """Copied on, the copy would lack records, or have them twice.  A rebuild makes both sides equal."""
    play = stage(1, properties=ONE_TRANSACTION)
    progress = [progress_place(play, partition) for partition in range(PARTITIONS)]
    hurt = (f"A.{play.topic}", 0) if lost == "copy" else progress[0]
    stopped = [0] if lost == "copy" else [n for n in range(PARTITIONS) if progress[n] == progress[0]]
    code = LOST_TAIL if lost == "copy" else LOST_PROGRESS
    copied(play)
    kept = sizes(play, [hurt])
    copied(play)
    lose(play, kept)
    before = [len(read(play.target, f"A.{play.topic}", n)) for n in range(PARTITIONS)]
    for _ in range(2):
        play.traffic(100)
        result = cycle(play.flow)
        assert "failed" == result.state
        assert [(n, code) for n in stopped] == [(it.partition, it.code) for it in result.stopped]
    after = [len(read(play.target, f"A.{play.topic}", n)) for n in range(PARTITIONS)]
    assert [0 if n in stopped else 200 for n in range(PARTITIONS)] == [
        new - old for old, new in zip(before, after, strict=True)
    ]
    with open_clusters(play.flow) as clusters:
        rebuild.run(play.flow, clusters, play.topic, by="test", reason="the power was cut", request="")
    play.check("a_power_cut")


def test_what_was_lost_together_is_copied_again(stage: Callable[..., Stage]) -> None:
    """Copy, progress and map end with the same transaction: nobody can have been told of what came behind it."""
    play = stage(2, properties=ONE_TRANSACTION)
    places = [(f"A.{play.topic}", n) for n in range(PARTITIONS)]
    places += sorted({*(progress_place(play, n) for n in range(PARTITIONS)), *map_places(play)})
    copied(play)
    kept = sizes(play, places)
    copied(play)
    lose(play, kept)
    play.traffic(100)
    play.check("a_power_cut")


def copied(stage: Stage) -> None:
    """Copy more records, to the end."""
    stage.traffic(100)
    assert "done" == cycle(stage.flow).state


def progress_place(stage: Stage, partition: int) -> TopicPartition:
    """Where progress of a partition of the stage's topic is kept."""
    with open_clusters(stage.flow) as clusters:
        record = progress_record(state_topics(stage.flow, clusters), stage.topic, partition, 0)
    return record.topic, record.partition


def map_places(stage: Stage) -> set[TopicPartition]:
    """Where the maps of the stage's topic are kept."""
    with open_clusters(stage.flow) as clusters:
        state = state_topics(stage.flow, clusters)
    return {(state.map_topic, map_partition(stage.topic, n, state.map_partitions)) for n in range(PARTITIONS)}


def log_file(stage: Stage, place: TopicPartition) -> Path:
    """The only segment of a partition of the target."""
    (found,) = stage.target.folder.glob(f"**/{place[0]}-{place[1]}/*.log")
    return Path(found)


def sizes(stage: Stage, places: Iterable[TopicPartition]) -> dict[Path, int]:
    """How long the files of some partitions are, in bytes."""
    files = [log_file(stage, place) for place in places]
    return {file: file.stat().st_size for file in files}


def lose(stage: Stage, kept: dict[Path, int]) -> None:
    """Kill the target, cut its files off where they ended before, and start it again."""
    stage.target.kill()
    for file, size in kept.items():
        assert size < file.stat().st_size
        os.truncate(file, size)
        for index in (*file.parent.glob("*.index"), *file.parent.glob("*.timeindex")):
            index.unlink()  # made anew from what is left
    stage.target.start()
