"""Derive the outcome of a cycle from its tasks, for the last task.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinlog.airflow.xcom import all_of
from twinlog.jsonable import Json

_UP_TO_COPY = frozenset({"discover", "sync_topics", "plan_ranges", "copy"})
TOPICS_NAMED = 10
"""Refused topics that a failure lists."""

TOPICS_TOLD = 500
"""Changed topics that an event lists."""

_NOTHING_KNOWN: Json = {"state": "failed", "records": 0, "bytes": 0, "partitions": []}


def failed_tasks(states: Mapping[str, str]) -> list[str]:
    """Return the names of the tasks of a run that failed themselves."""
    return sorted(task for task, state in states.items() if state == "failed")


def why_not_a_success(failed: Sequence[str], synced: Json | None) -> list[str]:
    """Return the reasons why the cycle is not complete: tasks that failed, topics that the target refused.

    `synced` is a SyncTopicsResult as JSON, None if there is none.
    """
    tasks = [f"{', '.join(failed)} failed in it: see the log there"] if failed else []
    if synced is None or not synced.get("refused"):
        return tasks
    refused, count = synced["refused"][:TOPICS_NAMED], all_of(synced, "refused")
    more = [f"and {count - len(refused)} topics more are"] if count > len(refused) else []
    return [*tasks, *(f"{item['name']} is refused: {item['message']}" for item in refused), *more]


def reported_copy(outcome: Json | None, failed: Sequence[str]) -> Json | None:
    """Return the copy's result for the report: None if there was nothing to copy, a failed one without a result.

    `outcome` is the copy task's XCom: a CopyResult as JSON, an error, or nothing at all.
    """
    if outcome is not None and "state" in outcome:
        return outcome
    return _NOTHING_KNOWN if _UP_TO_COPY.intersection(failed) else None


def asset_extra(report: Json, checks: Json | None = None) -> dict[str, Any]:
    """Return the event's extra for Dags that are scheduled on the remote cluster.

    `checks` is a ValidationResult as JSON: the names of the failed checks are passed on.  An event is a row of
    Airflow's database, so it lists a limited number of topics and counts the others.
    """
    extra = {
        name: report[name]
        for name in (
            *("flow", "run_id", "records", "bytes"),
            *("lag_records", "undecided_records", "unseen_partitions", "rpo_seconds"),
        )
    }
    failed = [it["name"] for it in (checks or {}).get("checks", []) if not it["passed"]]
    topics = changed_topics(report)
    return {
        **extra,
        "topics": topics[:TOPICS_TOLD],
        "topics_not_shown": max(0, len(topics) - TOPICS_TOLD),
        "failed_checks": failed,
    }


def changed_topics(report: Json) -> list[str]:
    """Return the remote topics that received records in this cycle, by the last try of its copy."""
    return [
        topic["remote_topic"]
        for topic in report["topics"]
        if any(partition["copied_records"] for partition in topic["partitions"])
    ]
