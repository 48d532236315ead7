"""MirrorMaker 2 to twinlog and back, with the real MM2 4.3.1: each record exactly once on the target.

Costs about two minutes: MM2 is started three times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from test_mirror_maker import Shared, latest, progress_records, share, wait_until_copied

from lab import Seen, commit_group, create_topic, cycle, produce, produce_transaction, read, read_with_offsets
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.lab.kafka.mirror_maker import MirrorMaker
from twinlog.migration import takeover
from twinlog.migration.copier import Origin
from twinlog.state.progress import read_maps

pytestmark = pytest.mark.mm2

NOW = int(time.time() * 1000)
SESSION_S = 40


def some(first: int, count: int) -> list[Seen]:
    """Records told apart by number; some without key or value, some with headers."""
    return [
        Seen(
            None if n % 5 == 0 else b"%d" % n,
            None if n % 11 == 0 else b"value %d" % n,
            NOW + n,
            (("n", b"%d" % n), ("n", None)) if n % 3 == 0 else (("n", b"%d" % n),),
        )
        for n in range(first, first + count)
    ]


def rarely_flushing(folder: Path, source: Any, target: Any, topic: str) -> Shared:
    """A flow whose MM2 writes its positions every ten seconds only."""
    shared = share(folder, source, target, topic)
    return Shared(
        shared.text.replace("offset.flush.interval.ms = 1000", "offset.flush.interval.ms = 10000"),
        shared.flow,
    )


def write_config(folder: Path, shared: Shared) -> Path:
    path = folder / "mm2-cli.properties"
    path.write_text(shared.text)
    return path


def wait_for_position(cluster: Any, flow: FlowSettings, at_least: int) -> None:
    """Wait until MM2 has flushed."""
    deadline = time.monotonic() + 240
    while max([it for it in positions(cluster, flow).values() if it is not None], default=-1) < at_least:
        assert time.monotonic() < deadline, "MM2 did not write its position"
        time.sleep(0.3)


def positions(cluster: Any, flow: FlowSettings) -> dict[bytes, int | None]:
    try:
        return latest(progress_records(cluster, flow))
    except AssertionError:
        return {}


def run_cli(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main([*words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def until_stopped(work: Callable[[], tuple[int, dict[str, Any]]]) -> tuple[int, dict[str, Any]]:
    """A killed worker stays in its group until its session ends."""
    deadline = time.monotonic() + SESSION_S
    while True:
        code, document = work()
        [flow] = document["flows"]
        if flow.get("error", {}).get("code") != "mm2-running" or time.monotonic() > deadline:
            return code, flow
        time.sleep(1)


def test_from_mirror_maker_and_back(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed between two flushes, taken over, handed back: nothing lost, nothing doubled, and the map is right."""
    topic = create_topic(cluster_a, unique_topic("moving"))
    shared = rarely_flushing(tmp_path, cluster_a, cluster_b, topic)
    flow, remote = shared.flow, shared.remote(topic)
    config = write_config(tmp_path, shared)
    produce(cluster_a, topic, some(0, 200))
    produce_transaction(cluster_a, topic, some(200, 20))
    commit_group(cluster_a, f"readers-{topic}", topic, 120)
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, remote, 220)
    wait_for_position(cluster_b, flow, 219)

    code, document = run_cli(capsys, "migrate", "takeover", "--config", str(config))
    assert (1, "mm2-running") == (code, document["flows"][0]["error"]["code"])
    produce(cluster_a, topic, some(220, 150))
    wait_until_copied(mirror_maker, cluster_b, remote, 370)
    mirror_maker.kill()
    before = positions(cluster_b, flow)

    code, dry = until_stopped(
        lambda: run_cli(capsys, "migrate", "takeover", "--config", str(config), "--dry-run")
    )
    assert (0, "dry-run") == (code, dry["state"]), dry
    assert before == positions(cluster_b, flow), "a dry run writes nothing"
    code, done = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", "--config", str(config)))
    assert (0, "done") == (code, done["state"]), done
    [partition] = done["partitions"]
    assert ("proved", 0, 370) == (partition["state"], partition["duplicates"], partition["compared"])
    assert 150 == partition["beyond"]
    assert partition == {**dry["partitions"][0], "position": partition["position"]}

    assert "nothing" == cycle(flow).state, "everything was copied already"
    produce(cluster_a, topic, some(370, 100))
    assert 100 == cycle(flow).records
    assert some(0, 470) == read(cluster_b, remote)
    check_map(flow, cluster_a, cluster_b, topic, remote)

    code, document = run_cli(capsys, "migrate", "handover", "--config", str(config))
    assert (0, "done") == (code, document["flows"][0]["state"]), document
    produce(cluster_a, topic, some(470, 60))
    with suppress(TerminalError):
        assert 0 == cycle(flow).records, "a flow that was handed over copies nothing"
    assert 470 == len(read(cluster_b, remote))
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, remote, 530)
    mirror_maker.stop(patience_s=60)
    assert some(0, 530) == read(cluster_b, remote)

    produce(cluster_a, topic, some(530, 10))
    code, back = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", "--config", str(config)))
    assert (0, "done", 0) == (code, back["state"], back["duplicates"]), back
    assert 10 == cycle(flow).records
    assert some(0, 540) == read(cluster_b, remote)
    check_map(flow, cluster_a, cluster_b, topic, remote)


def check_map(flow: FlowSettings, source: Any, target: Any, topic: str, remote: str) -> None:
    """Every offset translates to the same record, and back."""
    there = {seen.headers[0][1]: offset for offset, seen in read_with_offsets(target, remote)}
    with open_clusters(flow) as clusters:
        [known] = [it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic]
    for offset, seen in read_with_offsets(source, topic):
        translated = known.translate(offset)
        assert translated is not None and translated.exact
        assert there[seen.headers[0][1]] == translated.offset
        returned = known.reverse(translated.offset)
        assert returned is not None and offset == returned.offset


@pytest.mark.long
def test_copied_twice_by_mirror_maker_and_not_again_by_us(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Killed twice: its duplicates are found and counted, and none is added."""
    topic = create_topic(cluster_a, unique_topic("doubled"))
    shared = rarely_flushing(tmp_path, cluster_a, cluster_b, topic)
    flow, remote = shared.flow, shared.remote(topic)
    produce(cluster_a, topic, some(0, 100))
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, remote, 100)
    wait_for_position(cluster_b, flow, 99)
    produce(cluster_a, topic, some(100, 80))
    wait_until_copied(mirror_maker, cluster_b, remote, 180)
    mirror_maker.kill()
    time.sleep(12)
    mirror_maker.start()
    wait_until_copied(mirror_maker, cluster_b, remote, 260)
    mirror_maker.kill()

    produce(cluster_a, topic, some(180, 40))
    deadline = time.monotonic() + SESSION_S
    while True:
        try:
            with open_clusters(flow) as clusters:
                report = takeover.run(flow, clusters, Origin.of(flow), run_id="take")
            break
        except TerminalError as error:
            assert "mm2-running" == error.code and time.monotonic() < deadline
            time.sleep(1)
    assert ("done", 80, 80) == (report.state, report.duplicates, report.beyond)
    assert 40 == cycle(flow).records
    assert some(0, 180) + some(100, 80) + some(180, 40) == read(cluster_b, remote)
