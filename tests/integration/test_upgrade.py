"""State that an earlier release has written is read by this one: the upgrade is to stop one and start the other.

Cost: about a minute and a half, for six cold Spark sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, commit_group, configure, create_topic, produce, read

pytestmark = [pytest.mark.integration, pytest.mark.spark]

RELEASE = "0b5f0fc0b35e5513ef2f107d5836b11f50b3ea4e"
"""The commit of 0.2.0, since a clone may lack its tag."""


@pytest.fixture
def earlier(repository: Path, tmp_path: Path) -> Path:
    """The package of release 0.2.0, unpacked as its commit has it."""
    git = ["git", "-C", str(repository)]
    if subprocess.run([*git, "cat-file", "-e", RELEASE], capture_output=True, check=False).returncode:
        pytest.skip("this clone has no history back to release 0.2.0")
    archive = tmp_path / "release.tar"
    subprocess.run([*git, "archive", "--output", str(archive), RELEASE, "include"], check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "release", filter="data")
    return tmp_path / "release" / "include"


def twinlog(include: Path, *words: str) -> Any:
    """Run a command of the package below `include`, and read its answer."""
    done = subprocess.run(
        [sys.executable, "-m", "twinlog", *words, "--output", "json"],
        env={**os.environ, "PYTHONPATH": str(include)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def records(first: int, end: int) -> list[Seen]:
    return [
        Seen(b"k%d" % (number % 7), b"%d" % number, 1_700_000_000_000 + number)
        for number in range(first, end)
    ]


def test_this_release_goes_on_where_the_earlier_one_stopped(
    earlier: Path, repository: Path, cluster_a: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """Progress, map, ledger and groups are understood: nothing is copied twice, and all of it is proved equal."""
    source, target = (f"{side}{uuid.uuid4().hex[:6]}" for side in "st")
    topic = create_topic(cluster_a, f"upgrade-{source}", partitions=2)
    flow = f"{source}->{target}"
    file = configure(
        tmp_path,
        {source: cluster_a, target: cluster_b},
        [flow],
        topics=topic,
        groups=f"g-{source}",
        sync__group__offsets__enabled="true",
    )
    now = repository / "include"
    for partition in (0, 1):
        produce(cluster_a, topic, records(0, 500), partition)
    commit_group(cluster_a, f"g-{source}", topic, 123)
    before = twinlog(earlier, "run", "--once", "--config", str(file))
    assert 1000 == sum(each["copied_records"] for each in _partitions(before, topic))
    group = ["translate", "--group", f"g-{source}", "--config", str(file)]
    told = twinlog(earlier, *group)

    assert told == [{name: row[name] for name in told[0]} for row in twinlog(now, *group)]
    for partition in (0, 1):
        produce(cluster_a, topic, records(500, 800), partition)
    after = twinlog(now, "run", "--once", "--config", str(file))

    assert 600 == sum(each["copied_records"] for each in _partitions(after, topic))
    assert [records(0, 800)] * 2 == [read(cluster_b, f"{source}.{topic}", partition) for partition in (0, 1)]
    audited = twinlog(now, "audit", "--full", "--config", str(file))
    assert audited["equal"]
    assert [] == audited["differences"]


@contextmanager
def written_to(cluster: Any, topic: str) -> Iterator[list[Seen]]:
    """Let a client write a record every tenth of a second; return what it wrote."""
    written: list[Seen] = []
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.1):
            more = records(1_000 + len(written), 1_001 + len(written))
            produce(cluster, topic, more)
            written.extend(more)

    client = threading.Thread(target=write)
    client.start()
    try:
        yield written
    finally:
        over.set()
        client.join()


@pytest.mark.parametrize("then", ["goes on", "aborts"])
def test_an_open_failover_of_the_earlier_release(
    then: str, earlier: Path, repository: Path, cluster_a: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """It waits for a client that still writes: this release promotes under its name, or takes all of it back."""
    now = repository / "include"
    source, target = (f"{side}{uuid.uuid4().hex[:6]}" for side in "st")
    topic, flow = create_topic(cluster_a, f"upgrade-{source}"), f"{source}->{target}"
    more = {"twinlog__failover__wait__seconds": "1", "twinlog__gate__fence__seconds": "1"}
    file = configure(tmp_path, {source: cluster_a, target: cluster_b}, [flow], topics=topic, **more)
    asked = ["--config", str(file), "--flow", flow]
    produce(cluster_a, topic, records(0, 500))
    twinlog(earlier, "run", "--once", *asked)
    with written_to(cluster_a, topic) as late:
        begun = twinlog(earlier, "failover", "--mode", "planned", "--yes", *asked)
    assert ("waiting", ["fence-producers"]) == (
        begun["state"],
        [it["name"] for it in begun["steps"] if it["state"] == "waiting"],
    )
    seen = twinlog(now, "recovery", "status", *asked)
    assert ("failing-over", begun["run"], "open") == (seen["state"], seen["run"]["run"], seen["run"]["state"])

    if then == "goes on":
        ended = twinlog(now, "failover", "--mode", "planned", "--yes", *asked)
        assert (begun["run"], "promoted") == (ended["run"], ended["state"])
    else:
        ended = twinlog(now, "recovery", "abort", "--reason", "not today", *asked)
        assert begun["run"] == ended["run"]
        twinlog(now, "run", "--once", *asked)
    assert [*records(0, 500), *late] == read(cluster_b, f"{source}.{topic}", 0)


def _partitions(document: Any, topic: str) -> list[Any]:
    return [
        partition
        for flow in document["flows"]
        for each in flow["topics"]
        if each["topic"] == topic
        for partition in each["partitions"]
    ]
