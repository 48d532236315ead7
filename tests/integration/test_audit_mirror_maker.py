"""A copy made by the real MirrorMaker 2, audited after the take-over.  Costs about half a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_mirror_maker import share, wait_until_copied
from test_takeover import run_cli, some, until_stopped, wait_for_position, write_config

from lab import create_topic, cycle, produce
from twinlog.lab.kafka.mirror_maker import MirrorMaker

pytestmark = pytest.mark.mm2


@pytest.mark.long
def test_what_mirror_maker_copied_is_proved(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before the take-over nothing can be proved, and that is said; after it every record is, MM2's and ours."""
    topic = create_topic(cluster_a, unique_topic("mirrored"))
    shared = share(tmp_path, cluster_a, cluster_b, topic)
    config = str(write_config(tmp_path, shared))
    produce(cluster_a, topic, some(0, 300), compression_type="lz4")
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, shared.remote(topic), 300)
    wait_for_position(cluster_b, shared.flow, 299)
    mirror_maker.kill()

    code, before = run_cli(capsys, "audit", "--config", config)
    assert (1, ["no-map"]) == (code, [it["code"] for it in before["problems"]]), before
    code, taken = until_stopped(lambda: run_cli(capsys, "migrate", "takeover", "--config", config))
    assert (0, "done") == (code, taken["state"]), taken
    code, after = run_cli(capsys, "audit", "--config", config)
    assert (0, True, 300, 1.0) == (code, after["equal"], after["records"], after["coverage"]), after

    produce(cluster_a, topic, some(300, 100))
    assert 100 == cycle(shared.flow).records
    code, later = run_cli(capsys, "audit", "--config", config)
    assert (0, True, 100, 1.0) == (code, later["equal"], later["records"], later["coverage"]), later
