"""A batch that is damaged on disk is left out by a person, and its partition goes on: on real brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, cycle, flow_of, produce, read, wait_until
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.batches.header import HEADER_BYTES
from twinlog.cluster.api import open_clusters
from twinlog.formats.ledger.records import GapCause
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import alter
from twinlog.lifecycle.alter import AlterRequest
from twinlog.state.ledger import read_ledger
from twinlog.topics import pauses


def values(first: int, count: int) -> list[Seen]:
    return [Seen(None, b"value %d" % n, 1_000 + n) for n in range(first, first + count)]


def flip(folder: Path, topic: str, at: int) -> None:
    """Change a bit of the log while its broker is down."""
    (log,) = folder.glob(f"node-1/data/{topic}-0/*.log")
    raw = bytearray(log.read_bytes())
    raw[at] ^= 0x10
    log.write_bytes(raw)


def batch_starts(folder: Path, topic: str) -> list[int]:
    (log,) = folder.glob(f"node-1/data/{topic}-0/*.log")
    raw, starts = log.read_bytes(), [0]
    while starts[-1] < len(raw):
        starts.append(starts[-1] + 12 + int.from_bytes(raw[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts


def test_a_person_goes_on_behind_a_damaged_batch(
    cluster_b: Any, tmp_path: Path, unique_topic: Callable[[str], str]
) -> None:
    """The partition stops in front of it; `offsets alter` goes on behind it, a gap remains, and the rest arrives."""
    folder = tmp_path / "kafka"
    with EmbeddedKafka("damaged", folder) as source:
        topic = create_topic(source, unique_topic("damaged"))
        for first in (0, 5, 10):
            produce(source, topic, values(first, 5))
        source.stop()
        flip(folder, topic, batch_starts(folder, topic)[1] + HEADER_BYTES + 20)
        source.start()
        flow = flow_of(tmp_path, source, cluster_b, [topic], alias="DAMAGED")
        stopped = cycle(flow)
        assert [("corrupt-batch", 5)] == [(it.error_code, it.copied_records) for it in stopped.partitions]
        with open_clusters(flow) as clusters:
            pauses.pause(flow, clusters.target, topics=[topic], by="ann", reason="damage")
            assert alter.run(flow, clusters, AlterRequest(topic, 0, "10", "ann", "damaged")).changed
            pauses.resume(flow, clusters.target, topics=[topic], by="ann", reason="")
        produce(source, topic, values(15, 5))
        assert "done" == cycle(flow).state
        assert [*values(0, 5), *values(10, 10)] == read(cluster_b, f"DAMAGED.{topic}")
        with open_clusters(flow) as clusters:
            ledger = read_ledger(flow, clusters.target)
            audited = audit.run(flow, clusters, LocalAuditRunner())
        assert [(5, 9, GapCause.OFFSETS_ALTERED, True)] == [
            (it.first_offset, it.last_offset, it.cause, it.copied_past) for it in ledger.gaps
        ]
        assert [(5, 10, "ann")] == [(it.from_offset, it.to_offset, it.by) for it in ledger.altered]
        assert ("equal", 15) == (audited.verdict.value, audited.compared)


@contextmanager
def followed(file: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the flow of the file; it is killed if it has not ended."""
    command = [sys.executable, str(Path(__file__).parent / "follow_process.py"), "run", "--follow"]
    with log.open("w") as output:
        process = subprocess.Popen([*command, "--config", str(file)], stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def twinlog(file: Path, *words: str) -> None:
    """Run a command; it has to end with 0."""
    command = [sys.executable, "-m", "twinlog", *words, "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_a_batch_is_left_out_while_its_flow_is_followed(
    cluster_b: Any, tmp_path: Path, unique_topic: Callable[[str], str]
) -> None:
    """Pause the topic, alter, resume: the process that follows goes on with it, and never stopped the other topic."""
    folder = tmp_path / "kafka"
    with EmbeddedKafka("hurt", folder) as source:
        bad, good = create_topic(source, unique_topic("bad")), create_topic(source, unique_topic("good"))
        for first in (0, 5, 10):
            produce(source, bad, values(first, 5))
        source.stop()
        flip(folder, bad, batch_starts(folder, bad)[1] + HEADER_BYTES + 20)
        source.start()
        settings = {"topics": f"{bad},{good}", "heartbeats__replication__enabled": "false"}
        file = configure(tmp_path, {"HURT": source, "B": cluster_b}, ["HURT->B"], **settings)
        with followed(file, tmp_path / "run.log") as process:
            wait_until(lambda: values(0, 5) == copied(cluster_b, f"HURT.{bad}"), 60)
            produce(source, good, values(0, 5))
            wait_until(lambda: values(0, 5) == copied(cluster_b, f"HURT.{good}"), 60)
            topic = "--topic", bad
            twinlog(file, "pause", *topic, "--reason", "damage")
            place = "--topic", bad, "--partition", "0", "--to", "10"
            twinlog(file, "topics", "offsets", *place, "--reason", "damage", "--execute")
            produce(source, good, values(5, 5))
            wait_until(lambda: values(0, 10) == copied(cluster_b, f"HURT.{good}"), 60)
            assert values(0, 5) == copied(cluster_b, f"HURT.{bad}")
            twinlog(file, "resume", *topic)
            produce(source, bad, values(15, 5))
            wait_until(lambda: [*values(0, 5), *values(10, 10)] == copied(cluster_b, f"HURT.{bad}"), 60)
            assert process.poll() is None
            process.terminate()
            assert 0 == process.wait(30), (tmp_path / "run.log").read_text()


def copied(cluster: Any, topic: str) -> list[Seen]:
    """What a copy holds; nothing while it is not there."""
    try:
        return read(cluster, topic)
    except AssertionError:
        return []
