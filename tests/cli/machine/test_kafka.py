"""`twinlog machine kafka`: what it prints and how it exits, with clusters that never run."""

from __future__ import annotations

import json

from twinlog.cli.main import main
from twinlog.lab.kafka.state import ClusterState, write_state


def test_status_of_a_stopped_cluster_says_no(tmp_path, capsys):
    """JSON carries one entry a cluster, and the exit code is 1 when one does not run."""
    (tmp_path / "A").mkdir()
    write_state(tmp_path / "A", ClusterState("A", "4.3.1", 1))
    code = main(["machine", "kafka", "status", "--folder", str(tmp_path), "--output", "json"])
    expected = {
        "name": "A",
        "running": False,
        "bootstrap_servers": None,
        "version": "4.3.1",
        "pids": [],
        "folder": str(tmp_path / "A"),
    }
    assert ({"clusters": [expected]}, 1) == (json.loads(capsys.readouterr().out), code)


def test_start_needs_a_name(tmp_path, capsys):
    """An empty list is a mistake of the script that made it, not all clusters and not none."""
    for names in ("", " , "):
        assert 2 == main(["machine", "kafka", "start", "--clusters", names, "--folder", str(tmp_path / "k")])
        assert "--clusters names no cluster" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_status_and_stop_of_nothing_are_done(tmp_path, capsys):
    """An empty folder has nothing that does not run: exit 0, and the table says so."""
    for command in ("status", "stop"):
        code = main(["machine", "kafka", command, "--folder", str(tmp_path)])
        assert (0, True) == (code, "none was ever started here" in capsys.readouterr().out)
