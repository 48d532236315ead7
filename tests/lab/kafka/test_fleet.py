"""Clusters that run by themselves.  Cost: two brokers, about 15 s, in the one integration test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient

from twinlog.errors import UsageError
from twinlog.lab.kafka import fleet
from twinlog.lab.kafka.fleet import fleet_status, start_clusters, stop_clusters
from twinlog.process_id import born


@pytest.mark.parametrize("names", [["A", "A"], ["../A"], [""], ["a b"]])
def test_names_that_are_none_are_refused(tmp_path, names):
    """A name must do for a folder, and stand once."""
    with pytest.raises(UsageError) as refused:
        start_clusters(tmp_path / "fleet", names)
    assert ("cluster-name", False) == (refused.value.code, (tmp_path / "fleet").exists())


def test_a_folder_that_cannot_be_made_is_wrong_usage(tmp_path):
    """Said before anything is fetched for it, and nothing is left."""
    (tmp_path / "file").write_text("mine")
    for folder in (Path("/proc/k"), tmp_path / "file"):
        with pytest.raises(UsageError, match=f"folder {folder}/A cannot be used: ") as refused:
            start_clusters(folder, ["A"])
        assert "unusable-folder" == refused.value.code
    assert ["file"] == [each.name for each in tmp_path.iterdir()]


def test_what_was_never_started_is_stopped(tmp_path):
    """Asking for an unknown cluster is no error; asking for all of an empty folder shows none."""
    asked = fleet_status(tmp_path / "missing", ["A"])
    assert [("A", False, None)] == [
        (each.name, each.running, each.bootstrap_servers) for each in asked.clusters
    ]
    assert () == stop_clusters(tmp_path / "missing").clusters


def test_ctrl_c_leaves_no_broker_behind(tmp_path, monkeypatch):
    """It comes while a cluster is prepared: the broker that it starts all the same is stopped, too."""
    made = []

    class Preparing:
        """A cluster that starts its broker after it was told to stop for the first time."""

        def __init__(self, name: str, _folder: Path, **_options: object) -> None:
            self.name, self.told, self.runs = name, Event(), False
            made.append(self)

        def start(self) -> None:
            if self.name == "B":
                time.sleep(0.2)  # until both are waited for
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            self.told.wait(20)
            self.runs = True

        def stop(self) -> None:
            self.told.set()
            self.runs = False

    monkeypatch.setattr(fleet, "EmbeddedKafka", Preparing)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # whoever runs tests in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            start_clusters(tmp_path, ["A", "B"])
    finally:
        signal.signal(signal.SIGINT, before)
    time.sleep(0.5)  # nobody starts later
    assert [("A", True, False), ("B", True, False)] == [
        (each.name, each.told.is_set(), each.runs) for each in made
    ]


@pytest.mark.integration
def test_clusters_outlive_their_starter_and_are_stopped_by_another_process(tmp_path):
    """Started by a process that has ended, found and stopped by this one; data and name stay."""
    script = (
        "import sys; from pathlib import Path\n"
        "from twinlog.lab.kafka.fleet import start_clusters; from twinlog.jsonable import to_json\n"
        "import json; print(json.dumps(to_json(start_clusters(Path(sys.argv[1]), ['A', 'B']))))"
    )
    folder = tmp_path / "fleet"
    answer = subprocess.run(
        [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
    )
    started = json.loads(answer.stdout)["clusters"]
    try:
        found = fleet_status(folder)
        assert found.is_running()
        assert [each["bootstrap_servers"] for each in started] == [
            each.bootstrap_servers for each in found.clusters
        ]
        for cluster in found.clusters:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            assert 1 == len(admin.list_topics(timeout=10).brokers)
        again = start_clusters(folder, ["A"])
        assert found.clusters[0] == again.clusters[0]
        stop_clusters(folder, ["A"])
        later = start_clusters(folder, ["A"]).clusters[0]
        assert found.clusters[0].bootstrap_servers == later.bootstrap_servers, "files that name it stay right"
    finally:
        stopped = stop_clusters(folder)
    assert [("A", False), ("B", False)] == [(each.name, each.running) for each in stopped.clusters]
    assert [None, None] == [born(pid) for each in started for pid in each["pids"]]
