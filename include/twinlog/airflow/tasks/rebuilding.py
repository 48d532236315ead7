"""The tasks of the rebuild Dag: say what would be done, refuse it if not confirmed, do it."""

from __future__ import annotations

from airflow.sdk import get_current_context

from twinlog.airflow import form
from twinlog.airflow.tasks.frame import flow_of, log_step, opened, shown
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import shortened
from twinlog.errors import UsageError
from twinlog.jsonable import Json

PARAMS = {
    "topic": form.text("Topic", "The source topic whose copy is made anew.", section="What"),
    "confirm": form.text(
        "Confirm", "Write the topic's name again: its copy is deleted, with all its records.", section="What"
    ),
    "reason": form.text("Reason", "Why; kept in the ledger.", section="What"),
    "dry_run": form.dry_run(
        "Say what would be deleted and what can be copied again, and change nothing.", on=True
    ),
}


def plan(flow_name: str) -> Json:
    """Say what a rebuild would do.  Raises UsageError if the form is not filled in."""
    from twinlog.lifecycle import rebuild

    params = get_current_context()["params"]
    topic = asked_topic(params)
    flow = flow_of(flow_name)
    with opened(flow) as clusters:
        found = rebuild.plan(flow, clusters, topic)
    return shortened(shown(found), "`twinlog topics rebuild --topic T`, which asks before it does anything")


def do(flow_name: str) -> Json:
    """Delete the copy and create it again; skipped in a dry run.  A retry goes on where the last try stopped."""
    from twinlog.lifecycle import rebuild

    context = get_current_context()
    params, run = context["params"], context["dag_run"]
    topic = asked_topic(params)
    if params["dry_run"]:
        raise AirflowSkipException("dry run: nothing is deleted")
    flow = flow_of(flow_name)
    with opened(flow) as clusters:
        asked = {"by": "airflow", "reason": params["reason"], "request": run.run_id}
        done = rebuild.run(flow, clusters, topic, told=log_step, **asked)
    return shortened(shown(done), "the ledger (rebuild)")


def asked_topic(params: Json) -> str:
    """Return the topic in the form.  Raises UsageError if there is none, or it is not confirmed.  Pure."""
    topic = str(params["topic"]).strip()
    if not topic:
        raise UsageError("no topic is named", "fill in `topic` in the trigger form")
    if not params["dry_run"] and str(params["confirm"]).strip() != topic:
        raise UsageError(
            f"`confirm` does not say {topic}", "write the topic's name again: its copy is deleted"
        )
    return topic
