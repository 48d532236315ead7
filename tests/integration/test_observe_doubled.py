"""The copy of the real MirrorMaker 2, killed before it noted how far it came, is observed.  Costs about a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_mirror_maker import share, wait_until_copied
from test_takeover import run_cli, some

from lab import commit_group, create_topic, produce, read_with_offsets
from twinlog.lab.kafka.mirror_maker import MirrorMaker

pytestmark = pytest.mark.mm2


@pytest.mark.long
def test_what_mirror_maker_has_doubled_is_named(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It copies all a second time: each record of the second pass is called doubled, and none anything else."""
    topic = create_topic(cluster_a, unique_topic("observed"))
    # Its positions are written a minute apart, as by default: none is there when it is killed.
    shared = share(tmp_path, cluster_a, cluster_b, topic)
    text = shared.text.replace("offset.flush.interval.ms = 1000", "offset.flush.interval.ms = 60000")
    produce(cluster_a, topic, some(0, 3_000))
    commit_group(cluster_a, f"{topic}-group", topic, 1_000)
    mirror_maker = start_mirror_maker(text)
    wait_until_copied(mirror_maker, cluster_b, shared.remote(topic), 3_000)
    mirror_maker.kill()
    config = tmp_path / "observing.properties"
    config.write_text(f"{text}\n{shared.flow.name}.twinlog.copied.by = mirrormaker2\n")
    code, first = run_cli(capsys, "run", "--once", "--config", str(config))
    assert (0, 3_000) == (code, first["flows"][0]["records"]), first
    mirror_maker.start()
    wait_until_copied(mirror_maker, cluster_b, shared.remote(topic), 6_000)
    mirror_maker.stop()

    code, second = run_cli(capsys, "run", "--once", "--config", str(config))
    assert (0, 3_000) == (code, second["flows"][0]["records"]), second
    _, gate = run_cli(capsys, "gate", "--still-writing", "--config", str(config))
    (seen,) = gate["observed"]["topics"]
    assert ({"doubled": 3_000}, 6_000) == (seen["counts"], seen["equal"])
    (found,) = seen["findings"]["0"]
    assert ([0, 3_000], [3_000, 6_000]) == (found["upstream"], found["downstream"])
    values = [it.value for it in some(0, 3_000)]
    assert [*values, *values] == [it.value for _, it in read_with_offsets(cluster_b, shared.remote(topic))]
