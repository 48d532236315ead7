"""The alarms if more is at risk than a flow allows, or a drill fails: Airflow notifiers, and the RPO's deadline.

Three things break an RPO, and each has its own trigger.  A cycle does not end in time: a deadline of the Dag, which the
scheduler also watches if no task runs.  A cycle ends and leaves records waiting: `publish` sees that.  No cycle begins,
for its Dag is paused: the flow's other Dags see that when they look next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.versions import deadline
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError, UsageError
from twinlog.monitoring.alarm import REMINDER_MS, send, stands_still
from twinlog.recovery.ways_home import flow_called
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.state.ledger import Ledger

log = logging.getLogger(__name__)

BACKFILL = "backfill__"
"""Prefix of the run ids of a backfill; Airflow refuses it for other runs."""


class RpoAlert(BaseNotifier):  # type: ignore[misc]
    """Report that a flow breaks its RPO: in the log, and to `twinlog.alert.url` as JSON with a `text`, if it is set.

    The address is read when the alarm is sent, because an Airflow Dag is stored in Airflow's database.
    """

    template_fields = ()

    def __init__(self, *, flow: str, text: str) -> None:
        super().__init__()
        self.flow = flow
        self.text = text

    def notify(self, context: Any) -> None:
        """Send the alarm of a missed deadline, unless the run belongs to a backfill, or this was told a moment ago.

        A backfill queues all of its runs at once and copies old records, one interval after the other.
        """
        if not _run_of(context).startswith(BACKFILL) and not _late_before(self.flow):
            self.sound(context)

    def sound(self, context: Any) -> None:
        """Send the alarm; if the address does not take it, that is logged and the work goes on."""
        _sound("RPO ALERT", self.flow, self.text, context)


def _late_before(flow_name: str) -> bool:
    """Say whether the cycle before was over the RPO, too, and ended in this hour: its deadline has told of it."""
    from twinlog import clock
    from twinlog.state.ledger import read_ledger
    from twinlog.state.own_clusters import open_own_clusters

    try:
        flow = flow_called(read_configuration(ask_airflow), flow_name)
        with open_own_clusters(flow) as clusters:
            last = read_ledger(flow, clusters.target).last_report
    except TwinlogError:
        return False
    if last is None or flow.continuous or last.at_ms // REMINDER_MS != clock.now_ms() // REMINDER_MS:
        return False
    return bool(last.summary["seconds"] > flow.strictest_rpo_seconds)


class DrillAlert(BaseNotifier):  # type: ignore[misc]
    """Report that a drill failed, as `RpoAlert` does: also one whose worker died.

    A mistake in the form of a run by hand is none: who filled it in sees it.
    """

    template_fields = ("flow",)

    def __init__(self, *, flow: str) -> None:
        super().__init__()
        self.flow = flow

    def notify(self, context: Any) -> None:
        """Send the alarm, with what the task said."""
        error = context.get("exception")
        if isinstance(error, UsageError) and not _run_of(context).startswith("scheduled__"):
            return
        text = (
            visible(str(error))
            if error
            else "the drill failed, and could not say why: its worker may have died"
        )
        _sound("DRILL ALERT", self.flow, text, context)


def _sound(word: str, flow: str, text: str, context: Any) -> None:
    log.error("%s %s: %s", word, flow, text)
    send_to_address(flow, text, context)


def send_to_address(flow: str, text: str, context: Any) -> None:
    """Send an alarm to `twinlog.alert.url`, if it is set; if that cannot be done, it is logged."""
    try:
        url = flow_called(read_configuration(ask_airflow), flow).gate.alert_url
    except TwinlogError as error:
        log.error("where the alarm goes is not known: %s", error)
        return
    if url is not None and (trouble := send(url, flow, text, _run_of(context))):
        log.error(trouble)


def rpo_deadline(flow: FlowSettings) -> Any:
    """Return the deadline of a cycle: the strictest RPO of the flow, counted from when the run was queued.

    A run that follows ends when the next one takes over, so its deadline is that much later: it reports one that
    hangs.
    """
    seconds = flow.strictest_rpo_seconds + (flow.copy.longest_run_seconds if flow.continuous else 0)
    text = f"a cycle has not ended within {seconds} s: what was written since is not known to be copied"
    told = {"flow": flow.name, "text": text}
    return deadline(f"RPO of {flow.name}", timedelta(seconds=seconds), RpoAlert, told)


def sound_if_standing_still(flow: FlowSettings, ledger: Ledger, context: Any) -> None:
    """Send the alarm if the flow copies, and a cycle that was due has not ended for longer than the strictest RPO."""
    from twinlog import clock

    last, now = ledger.last_report, clock.now_ms()
    if last is not None and ledger.copies and stands_still(flow, last.at_ms, now):
        text = (
            f"no report for {(now - last.at_ms) // 1000} s: what was written since is not known to be copied"
        )
        RpoAlert(flow=flow.name, text=text).sound(context)


def sound_if_overdue(overdue: Iterable[str], flow: FlowSettings, context: Any) -> None:
    """Send the alarm that no drill has passed for too long, if there is one to send."""
    for text in overdue:
        _sound("DRILL ALERT", flow.name, text, context)


def _run_of(context: Any) -> str:
    run = context.get("dag_run")
    if isinstance(run, Mapping):
        return str(run.get("dag_run_id") or run.get("run_id") or "")
    return str(getattr(run, "run_id", "") or "")
