"""List the duties of a flow beside its copy, and decide which are due.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import NEVER
from twinlog.metadata.subjects import Subject, intervals


class DutyState(StrEnum):
    """Name how a duty ended; `skipped` says that there was a reason to do nothing, `off` that a key turns it off."""

    DONE = "done"
    SKIPPED = "skipped"
    OFF = "off"
    FAILED = "failed"


class DutyName(StrEnum):
    """Name a duty."""

    TOPIC_CONFIGS = "topic_configs"
    TOPIC_ACLS = "topic_acls"
    QUOTAS = "quotas"
    SCHEMAS = "schemas"
    AUDIT = "audit"
    ALARMS = "alarms"


SUBJECTS: Mapping[DutyName, Subject] = {
    DutyName.TOPIC_CONFIGS: Subject.CONFIGS,
    DutyName.TOPIC_ACLS: Subject.ACLS,
    DutyName.QUOTAS: Subject.QUOTAS,
}
"""The duties that sync metadata."""

KEYS: Mapping[DutyName, str] = {
    DutyName.TOPIC_CONFIGS: "sync.topic.configs.enabled",
    DutyName.TOPIC_ACLS: "sync.topic.acls.enabled",
    DutyName.QUOTAS: "twinlog.sync.quotas.enabled",
    DutyName.SCHEMAS: "twinlog.schemas.subjects",
    DutyName.AUDIT: "twinlog.audit.schedule",
    DutyName.ALARMS: "twinlog.alert.url",
}
"""The key that turns a duty on or off."""

ALARM_SECONDS = 60.0
AUDIT_LOOK_SECONDS = 30.0
"""How often is asked whether a moment of the audit's schedule has passed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one duty, and what it was about."""

    state: DutyState
    message: str = ""


@dataclass(frozen=True, slots=True)
class DutyReport:
    """One row of a run's report: what became of a duty the last time."""

    name: str
    state: DutyState
    seconds: float
    message: str


D = TypeVar("D")


def every(flow: FlowSettings) -> dict[DutyName, float]:
    """Return the seconds between two turns of each duty that is on, by MM2's keys where it has them.

    Of a flow that is only observed, all but the alarms are the engine's that copies it.
    """
    if flow.observed:
        return {DutyName.ALARMS: ALARM_SECONDS}
    found = syncs_every(flow)
    if flow.audit.schedule != NEVER:
        found[DutyName.AUDIT] = AUDIT_LOOK_SECONDS
    return {**found, DutyName.ALARMS: ALARM_SECONDS}


def syncs_every(flow: FlowSettings) -> dict[DutyName, float]:
    """Return the seconds between two syncs of what is no record; schemas have the interval of configs."""
    syncs = intervals(flow)
    found = {name: float(syncs[subject]) for name, subject in SUBJECTS.items() if subject in syncs}
    if flow.metadata.schemas.copied:
        found[DutyName.SCHEMAS] = float(flow.sync_topic_configs_interval_seconds)
    return found


def turned_off(flow: FlowSettings) -> tuple[DutyReport, ...]:
    """Return a row for each duty that is off, with the key that turns it on: by default, some are."""
    on = every(flow)
    return tuple(
        DutyReport(name.value, DutyState.OFF, 0.0, f"{KEYS[name]} turns it on")
        for name in DutyName
        if name not in on and not flow.observed
    )


def due(listed: Sequence[D], every: Callable[[D], float], last: Mapping[D, float], now: float) -> list[D]:
    """Return what is due at `now`: never done, or done last (monotonic seconds) its interval ago or longer."""
    return [it for it in listed if it not in last or now - last[it] >= every(it)]
