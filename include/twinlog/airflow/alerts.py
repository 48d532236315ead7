"""The alarm when more is at risk than a flow promises: an Airflow notifier, and the deadline that sounds it.

Two things break an RPO, and each has its own trigger: a cycle that does not end in time (a deadline of the Dag, which
the scheduler watches also when no task runs), and one that ends and leaves records waiting (seen by `publish`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import requests
from airflow.sdk import BaseNotifier, DeadlineAlert, DeadlineReference, SyncCallback  # type: ignore[attr-defined]

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.following import longest
from twinlog.airflow.secrets import ask_airflow
from twinlog.config.file.secret import reveal
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10
TOPICS_NAMED = 10

BACKFILL = "backfill"
"""How the ids of a backfill's runs begin; Airflow refuses others' runs such an id."""


class RpoAlert(BaseNotifier):  # type: ignore[misc]
    """Say that a flow breaks its RPO: in the log, and to `twinlog.alert.url` as JSON with a `text`, if there is one.

    The address is read where the alarm sounds: what an Airflow Dag carries is stored in its database.
    """

    template_fields = ()

    def __init__(self, *, flow: str, text: str) -> None:
        super().__init__()
        self.flow = flow
        self.text = text

    def notify(self, context: Mapping[str, Any]) -> None:
        """Sound the alarm of a missed deadline, unless the run is of a backfill.

        A backfill queues all of its runs at once and copies what is long past, one interval after the other.
        """
        if not _run_of(context).startswith(f"{BACKFILL}__"):
            self.sound(context)

    def sound(self, context: Mapping[str, Any]) -> None:
        """Sound the alarm; an address that does not take it is logged and keeps nothing from going on."""
        log.error("RPO ALERT %s: %s", self.flow, self.text)
        try:
            url = read_configuration(ask_airflow).flows[self.flow].gate.alert_url
        except TwinlogError as error:
            log.error("where the alarm goes is not known: %s", error)
            return
        if url is None:
            return
        body = {"text": f"twinlog {self.flow}: {self.text}", "flow": self.flow, "run": _run_of(context)}
        try:
            requests.post(reveal(url), json=body, timeout=TIMEOUT_SECONDS).raise_for_status()
        except requests.RequestException as error:
            # The address itself may be a secret, and requests puts it into its messages.
            log.error("the alarm was not taken by twinlog.alert.url: %s", type(error).__name__)


def rpo_deadline(flow: FlowSettings) -> DeadlineAlert:
    """Return the deadline of a cycle: the strictest RPO of the flow, from the moment it was queued.

    A run that follows ends when it is relieved, so its deadline is that much later: it tells of one that hangs.
    """
    seconds = min(tier.rpo_seconds for tier in flow.tiers)
    if flow.continuous:
        seconds += round(longest(flow).total_seconds())
    text = f"a cycle has not ended within {seconds} s: what was written since is not known to be copied"
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=seconds),
        callback=SyncCallback(RpoAlert, kwargs={"flow": flow.name, "text": text}),
        name=f"RPO of {flow.name}",
    )


def sound_if_over_budget(
    flow: FlowSettings,
    topics: Iterable[Mapping[str, Any]],
    context: Mapping[str, Any],
    undecided: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Sound the alarm about topics (of a cycle report) whose oldest record waits for longer than their tier allows.

    And about transactions of the source that hold records back for too long: `undecided` partitions of the report.
    """
    over = [*over_budget(flow, topics), *held_back(flow, undecided)]
    if over:
        RpoAlert(flow=flow.name, text="; ".join(over)).sound(context)


def over_budget(flow: FlowSettings, topics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the topics that are over budget.  Pure."""
    lines = [
        f"{it['topic']}: a record waits for {it['rpo_seconds']:.0f} s, its RPO is {tier.rpo_seconds} s"
        for it in topics
        if it["rpo_seconds"] is not None
        and it["rpo_seconds"] > (tier := flow.tier_of(it["topic"])).rpo_seconds
    ]
    return _shortened(lines, "topics")


def held_back(flow: FlowSettings, undecided: Iterable[Mapping[str, Any]]) -> list[str]:
    """Tell of records that an open transaction holds back for longer than it may, or nobody knows how long.  Pure."""
    lines = [
        f"{it['message']}; {it['hint']}"
        for it in undecided
        if it["seconds"] is None or it["seconds"] > flow.gate.undecided_seconds
    ]
    return _shortened(lines, "partitions behind open transactions")


def _shortened(lines: list[str], what: str) -> list[str]:
    more = [f"and {len(lines) - TOPICS_NAMED} {what} more"] if len(lines) > TOPICS_NAMED else []
    return lines[:TOPICS_NAMED] + more


def _run_of(context: Mapping[str, Any]) -> str:
    run = context.get("dag_run")
    if isinstance(run, Mapping):
        return str(run.get("dag_run_id") or run.get("run_id") or "")
    return str(getattr(run, "run_id", "") or "")
