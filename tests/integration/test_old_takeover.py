"""From MirrorMaker 2 to twinlog, and back, where the source is of long ago: Kafka 2.4, and 2.0 with an MM2 of 3.9.

MM2 4.3 no longer speaks to 2.0 (KIP-896); MM2 2.8 makes no topics on a target of 4.x, since it also hands on settings
that nobody has set, and some exist no more.  By the commands that a user would type.  Costs two minutes a version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_audit import delete_topic
from test_mirror_maker import Shared, share, wait_until_copied
from test_old_sources import NO_FORMAT, create_again
from test_takeover import check_map, run_cli, some, until_stopped, wait_for_position, write_config

from lab import (
    Seen,
    commit_group,
    committed,
    create_topic,
    produce,
    produce_transaction,
    read,
    read_with_offsets,
)
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.jars import MIRROR_MAKER_VERSION, OLDER_KAFKA_VERSION

pytestmark = [pytest.mark.mm2, pytest.mark.long]

NOW = int(time.time() * 1000)


@pytest.fixture(
    params=[("2.4.1", MIRROR_MAKER_VERSION), ("2.0.1", OLDER_KAFKA_VERSION)],
    ids="{0[0]} with MM2 {0[1]}".format,
)
def migrating(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[EmbeddedKafka, str]]:
    """A source of long ago, and the version of the MM2 that copies it."""
    version, mirror_maker = request.param
    with EmbeddedKafka("old", tmp_path / "kafka", version, jvm=()) as source:
        yield source, mirror_maker


def plain(first: int, count: int) -> list[Seen]:
    """Records without headers: message format v1 has none."""
    return [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def test_from_mirror_maker_and_back(
    migrating: tuple[EmbeddedKafka, str],
    start_mirror_maker: Callable[..., Any],
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed between two flushes: nothing lost or doubled, groups exact, all proved; a recreated topic is told."""
    source, version = migrating
    stem = unique_topic("moving")
    topic = create_topic(source, f"{stem}-new")
    ancient = create_topic(source, f"{stem}-v1", message_format_version="0.10.0")
    group = f"readers-{stem}"
    shared = share(
        tmp_path,
        source,
        cluster_b,
        f"{stem}.*",
        groups=group,
        **{
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "config.properties.exclude": NO_FORMAT,
        },
    )
    shared = Shared(
        shared.text.replace("offset.flush.interval.ms = 1000", "offset.flush.interval.ms = 10000"),
        shared.flow,
    )
    flow = shared.flow
    remote, remote_ancient = shared.remote(topic), shared.remote(ancient)
    config = ("--config", str(write_config(tmp_path, shared)))
    produce(source, topic, some(0, 200))
    produce_transaction(source, topic, some(200, 20))
    produce(source, ancient, plain(0, 60), enable_idempotence=False, compression_type="gzip")
    commit_group(source, group, topic, 120)

    mirror_maker = start_mirror_maker(shared.text, version)
    wait_until_copied(mirror_maker, cluster_b, remote, 220)
    wait_until_copied(mirror_maker, cluster_b, remote_ancient, 60)
    wait_for_position(cluster_b, flow, 219)
    code, document = run_cli(capsys, "migrate", "takeover", *config)
    assert (1, "mm2-running") == (code, document["flows"][0]["error"]["code"])
    produce(source, topic, some(220, 150))
    wait_until_copied(mirror_maker, cluster_b, remote, 370)
    mirror_maker.kill()

    code, dry = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", *config, "--dry-run"))
    assert (0, "dry-run") == (code, dry["state"]), dry
    code, done = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", *config))
    assert (0, "done") == (code, done["state"]), done
    found = {it["topic"]: it for it in done["partitions"]}
    assert {topic: ("proved", 0, 370), ancient: ("proved", 0, 60)} == {
        name: (it["state"], it["duplicates"], it["compared"]) for name, it in found.items()
    }
    assert 150 == found[topic]["beyond"]

    produce(source, topic, some(370, 100))
    produce(source, ancient, plain(60, 20), enable_idempotence=False)
    commit_group(source, group, topic, 300)
    cycled(capsys, config, 120)
    assert some(0, 470) == read(cluster_b, remote)
    assert plain(0, 80) == read(cluster_b, remote_ancient)
    check_map(flow, source, cluster_b, topic, remote)
    at = dict(read_with_offsets(source, topic))[300]
    assert at == dict(read_with_offsets(cluster_b, remote))[committed(cluster_b, group, remote)]
    code, audit = run_cli(capsys, "audit", *config)
    assert (0, True, True, 550) == (code, audit["equal"], audit["proved"], audit["compared"]), audit

    code, document = run_cli(capsys, "migrate", "handover", *config)
    assert (0, "done") == (code, document["flows"][0]["state"]), document
    produce(source, topic, some(470, 60))
    mirror_maker = start_mirror_maker(shared.text, version)
    wait_until_copied(mirror_maker, cluster_b, remote, 530)
    mirror_maker.stop(patience_s=60)
    code, back = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", *config))
    assert (0, "done", 0) == (code, back["state"], back["duplicates"]), back
    produce(source, topic, some(530, 10))
    cycled(capsys, config, 10)
    assert some(0, 540) == read(cluster_b, remote)

    delete_topic(source, topic)
    create_again(source, topic)
    produce(source, topic, some(1000, 700))
    code, document = run_cli(capsys, "run", "--once", *config)
    assert 1 == code, document
    assert some(0, 540) == read(cluster_b, remote)


def cycled(capsys: pytest.CaptureFixture[str], config: tuple[str, ...], records: int) -> None:
    """A cycle copied so many records."""
    code, document = run_cli(capsys, "run", "--once", *config)
    [flow] = document["flows"]
    assert (0, records) == (code, flow["records"]), document
