"""The trigger form and the text page that a Dag shows."""

from __future__ import annotations

from airflow.sdk import Param

from twinlog.airflow.assets import remote_cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.spark.master import without_options

PARAMS = {
    "topics": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Topics",
        description="Source topics to copy in this run; empty means every topic of the flow.",
        section="Scope",
    ),
    "until": Param(
        None,
        type=["null", "string"],
        format="date-time",
        pattern=r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}",  # Airflow does not check formats
        title="Until",
        description="Copy records up to this time; empty means now, or the end of a backfill's interval.",
        section="Scope",
    ),
    "dry_run": Param(
        False,
        type="boolean",
        title="Dry run",
        description="Say what would be done, and change nothing.",
    ),
}


_FOLLOWS = """
Scheduled runs **follow** the source: records are copied as they come. While one does, every other run leaves the copy
to it, and does the rest. `twinlog pause` ends that at the next look; a Dag that is paused has no next run, and its
last one ends by itself within the hour.
"""


def describe_flow(flow: FlowSettings) -> str:
    """Return the Dag's doc_md."""
    return f"""\
### {flow.source.alias} → {flow.target.alias}

One run is one replication cycle, and a step can be run again at any time: what it does follows from the state
on **{flow.target.alias}**, not from the step before it.

| | |
|---|---|
| guarantee | {flow.copy.guarantee.value} |
| topics | `{", ".join(flow.topics.include)}` |
| Spark | `{without_options(flow.copy.spark_master)}` |
| schedule | `{flow.schedule}` UTC |

**Trigger** copies up to now; the form narrows a run to some topics or to a time. **Backfill** copies up to
the end of each data interval, one after the other. A run that finds nothing to copy skips the Spark job.

A run that went well as a whole sends an event of the asset `{remote_cluster(flow.target.alias).uri}`; one in which
anything failed, if only a partition that has stopped, sends none, though the others are copied.
{_FOLLOWS if flow.continuous else ""}"""
