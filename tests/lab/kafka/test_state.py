"""What a cluster's folder says."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from twinlog.errors import UsageError
from twinlog.lab.kafka.state import ClusterState, claim, read_state, write_state
from twinlog.process_id import ProcessId

CLUSTER_A = ClusterState("A", "4.3.1", 1)


def test_a_folder_says_what_was_written(tmp_path):
    """State survives the file."""
    state = replace(CLUSTER_A, bootstrap_servers="127.0.0.1:1", processes=(ProcessId(1, 2.5),))
    write_state(tmp_path, state)
    assert state == read_state(tmp_path)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"name": "A"}', '{"processes": [], "surprise": 1}'])
def test_a_folder_without_a_readable_word_says_nothing(tmp_path, text):
    """No file, a torn one and a foreign one all read as no state."""
    if text is not None:
        (tmp_path / "cluster.json").write_text(text)
    assert read_state(tmp_path) is None


def test_new_folders_are_claimed_without_data_and_own_ones_with(tmp_path):
    """A missing and an empty folder are new; one that holds this cluster is taken up."""
    assert (False, False) == (claim(tmp_path / "missing", CLUSTER_A), claim(tmp_path, CLUSTER_A))
    write_state(tmp_path, CLUSTER_A)
    assert claim(tmp_path, CLUSTER_A)


@pytest.mark.parametrize(
    "found",
    [replace(CLUSTER_A, name="B"), replace(CLUSTER_A, version="3.9.2"), replace(CLUSTER_A, nodes=3), None],
)
def test_a_stale_folder_is_refused_by_name(tmp_path, found):
    """Another cluster's data, another version's, or an unknown file: one clear line, and nothing is touched."""
    if found:
        write_state(tmp_path, found)
    else:
        (tmp_path / "holiday.jpg").touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=str(tmp_path)) as refused:
        claim(tmp_path, CLUSTER_A)
    assert ("stale-folder", before) == (refused.value.code, sorted(tmp_path.iterdir()))


def test_a_running_clusters_folder_is_refused_with_its_pid(tmp_path):
    """The folder of a living broker cannot be taken, whoever asks."""
    write_state(tmp_path, replace(CLUSTER_A, processes=(ProcessId.of(os.getpid()),)))
    with pytest.raises(UsageError, match=str(os.getpid())) as refused:
        claim(tmp_path, CLUSTER_A)
    assert "cluster-running" == refused.value.code


def test_a_later_process_with_the_same_id_is_not_ours():
    """A process id that was used again does not count as our broker."""
    ours = ProcessId.of(os.getpid())
    assert (True, False) == (ours.is_alive(), replace(ours, born=ours.born - 100).is_alive())
