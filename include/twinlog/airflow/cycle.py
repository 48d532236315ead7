"""A run of a flow's Dag: what its form and data interval ask for, the Dag's page, and how the run ended.  Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.airflow import form
from twinlog.airflow.assets import remote_cluster
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.xcom import all_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.jsonable import Json
from twinlog.spark.session import without_options

_UP_TO_COPY = frozenset({"discover", "sync_topics", "plan_ranges", "copy"})
TOPICS_NAMED = 10
"""Refused topics that a failure lists."""

TOPICS_TOLD = 500
"""Changed topics that an event lists."""

_NOTHING_KNOWN = {"state": "failed", "records": 0, "bytes": 0, "partitions": []}


@dataclass(frozen=True, slots=True)
class CycleRequest:
    """One cycle: `topics` empty means every topic of the flow; `until_ms` None means up to now.

    `until_ms` is a record timestamp (epoch ms): the copy ends before the first record with that timestamp or a later
    one.  `follow_seconds` is how long a run of a continuous Dag follows the source at most.
    """

    topics: tuple[str, ...] = ()
    dry_run: bool = False
    until_ms: int | None = None
    follow_seconds: float | None = None


def request_of(context: Any) -> CycleRequest:
    """Return what the Dag run of an Airflow task context asks for."""
    run = context["dag_run"]
    return cycle_request(context["params"], run_type=run.run_type.value, interval_end=run.data_interval_end)


def cycle_request(params: Json, *, run_type: str, interval_end: dt.datetime | None) -> CycleRequest:
    """Return what the trigger form asks for; its `until` overrides the data interval.

    A backfill run ends at its data interval.  A scheduled or manual run copies up to now: its interval ended moments
    ago anyway, and a record stamped in the future by a producer with a wrong clock would otherwise hold its partition
    back until that time.
    """
    until = parse_time("until", params["until"]) if params.get("until") else None
    if until is None and run_type == "backfill":
        until = interval_end
    return CycleRequest(
        topics=tuple(params.get("topics") or ()),
        dry_run=bool(params.get("dry_run")),
        until_ms=None if until is None else round(until.timestamp() * 1000),
    )


def parse_time(field: str, text: str) -> dt.datetime:
    """Return the time in a field of a trigger form, UTC if it names no zone.  Raises UsageError for another text."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{field}: {text!r} is no time", "write 2026-01-31T12:00:00Z", **{field: text}
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


PARAMS = {
    "topics": form.names(
        "Topics", "Source topics to copy in this run; empty means every topic of the flow.", section="Scope"
    ),
    "until": form.moment(
        "Until",
        "Copy records up to this time; empty means now, or the end of a backfill's interval.",
        pattern=form.A_TIME,
        section="Scope",
    ),
    "dry_run": form.dry_run(),
}

_FOLLOWS = """
Scheduled runs **follow** the source: records are copied as they come. While one does, every other run leaves the copy
to it, and does the rest. A pause of the flow (docs/topics.md) ends that at the next topic refresh; a Dag that is paused
has no next run, and its last one ends by itself within the hour.
"""


def describe_flow(flow: FlowSettings) -> str:
    """Return the Dag's doc_md."""
    return f"""\
### {flow.source.alias} → {flow.target.alias}

One run is one replication cycle, and a step can be run again at any time: what it does follows from the state
on **{flow.target.alias}**, not from the step before it.

| | |
|---|---|
| topics | `{", ".join(flow.topics.include)}` |
| Spark | `{without_options(flow.copy.spark_master)}` |
| schedule | `{flow.schedule}` UTC |

**Trigger** copies up to now; the form narrows a run to some topics or to a time. **Backfill** copies up to
the end of each data interval, one after the other. A run that finds nothing to copy skips the Spark job.

A run that went well as a whole sends an event of the asset `{remote_cluster(flow.target.alias).uri}`; one in which
anything failed, if only a partition that has stopped, sends none, though the others are copied. If the flow is paused
or was failed over, nothing is copied: the cycle is reported, its last task is skipped, and no event is sent.
{link_in_text(flow)}{_FOLLOWS if flow.continuous else ""}"""


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


def why_nothing_was_copied(flow: str, discovered: Json | None, copied: Json | None = None) -> str:
    """Return the sentence about a flow that was suspended when the cycle began; "" if it was not, or has copied since.

    `discovered` is the XCom of task `discover`, `copied` that of `copy`; None if there is none.
    """
    held = (discovered or {}).get("stands_by")
    return f"{flow} is {held}: nothing is copied" if held and not (copied or {}).get("records") else ""


def reported_copy(outcome: Json | None, failed: Sequence[str]) -> Json | None:
    """Return the copy's result for the report: None if there was nothing to copy, a failed one without a result.

    `outcome` is the copy task's XCom: a CopyResult as JSON, an error, or nothing at all.
    """
    if outcome is not None and "state" in outcome:
        return outcome
    return _NOTHING_KNOWN if _UP_TO_COPY.intersection(failed) else None


def asset_extra(report: Json, checks: Json | None = None) -> Json:
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
    topics = [  # by the last try of its copy
        topic["remote_topic"]
        for topic in report["topics"]
        if any(partition["copied_records"] for partition in topic["partitions"])
    ]
    return {
        **extra,
        "topics": topics[:TOPICS_TOLD],
        "topics_not_shown": max(0, len(topics) - TOPICS_TOLD),
        "failed_checks": failed,
    }
