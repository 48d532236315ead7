from twinlog.airflow.cycle import asset_extra, failed_tasks, reported_copy, why_not_a_success

REPORT = {
    "flow": "A->B",
    "run_id": "r",
    "state": "done",
    "records": 3,
    "bytes": 300,
    "lag_records": 1,
    "undecided_records": 7,
    "unseen_partitions": 2,
    "rpo_seconds": 0.5,
    "topics": [
        {"remote_topic": "A.orders", "partitions": [{"copied_records": 0}, {"copied_records": 3}]},
        {"remote_topic": "A.idle", "partitions": [{"copied_records": 0}]},
    ],
}


def test_tasks_that_failed_themselves() -> None:
    """What was not run because of them is not named."""
    states = {"discover": "success", "copy": "failed", "heartbeats": "success", "validate": "upstream_failed"}

    assert ["copy"] == failed_tasks(states)


def test_what_keeps_a_cycle_from_being_a_success() -> None:
    """A topic that the target refuses does not stop the others, and is not forgotten either."""
    synced = {"refused": [{"name": "A.orders", "message": "no CREATE"}]}

    assert [] == why_not_a_success([], None)
    assert ["copy, validate failed in it: see the log there", "A.orders is refused: no CREATE"] == (
        why_not_a_success(["copy", "validate"], synced)
    )


def test_a_result_is_reported_as_it_is() -> None:
    """Also that of a copy that stopped half-way."""
    outcome = {"state": "failed", "records": 2}

    assert outcome == reported_copy(outcome, ["copy"])


def test_a_skipped_copy_copied_nothing() -> None:
    """There is no result, whatever validation says of earlier ones."""
    assert reported_copy(None, []) is None
    assert reported_copy(None, ["validate"]) is None


def test_a_copy_without_a_result_failed() -> None:
    """Killed, or an error before anything was copied."""
    expected = {"state": "failed", "records": 0, "bytes": 0, "partitions": []}

    assert expected == reported_copy(None, ["copy"])
    assert expected == reported_copy(None, ["discover", "validate"])
    assert expected == reported_copy({"error": {"kind": "ConfigError"}}, ["copy"])


CHECKS = {"checks": [{"name": "heartbeat-age", "passed": False}, {"name": "no-open-gaps", "passed": True}]}


def test_asset_event_names_what_changed() -> None:
    """Records and lag of the cycle, the remote topics that got records, and the checks that failed."""
    assert {
        "flow": "A->B",
        "run_id": "r",
        "records": 3,
        "bytes": 300,
        "lag_records": 1,
        "undecided_records": 7,
        "unseen_partitions": 2,
        "rpo_seconds": 0.5,
        "topics": ["A.orders"],
        "topics_not_shown": 0,
        "failed_checks": ["heartbeat-age"],
    } == asset_extra(REPORT, CHECKS)
