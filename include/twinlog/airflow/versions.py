"""What Airflow 3.1, 3.2 and 3.3 have in different places, or not all of them: nothing else of twinlog asks which it is.

Before 3.3 there is no retry policy: a task is tried twice more whatever went wrong, also if it will not go away.
Before 3.2 a deadline calls nothing but coroutines: there Airflow does not tell of a cycle that does not end.
Before 3.3 a backfill's runs have a deadline, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any, ClassVar

from packaging.version import Version

import airflow
from twinlog.airflow.words import in_airflow
from twinlog.errors import TwinlogError, UsageError

RELEASE = Version(airflow.__version__).release[:2]
if not (3, 1) <= RELEASE < (4, 0):
    raise UsageError(
        f"Airflow {airflow.__version__} is installed, and twinlog's Dags need 3.1 or a later 3",
        "pip install 'apache-airflow>=3.1,<4', with Airflow's constraints",
        code="airflow-version",
    )

PROVIDERS = {"apache-airflow-providers-apache-spark": "5.3", "apache-airflow-providers-standard": "1.8"}
"""The lowest version of each: pip keeps to it, an image that was put together by hand may not."""
for _name, _lowest in PROVIDERS.items():
    if Version(version(_name)) < Version(_lowest):
        raise UsageError(
            f"{_name} {version(_name)} is installed, and twinlog's Dags need {_lowest} or later",
            f"pip install '{_name}>={_lowest}', with Airflow's constraints",
            code="airflow-version",
        )

if RELEASE >= (3, 2):
    from airflow.sdk import CronDataIntervalTimetable, CronTriggerTimetable, DeltaDataIntervalTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
    )
    from airflow.sdk.observability.stats import Stats
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
    )
    from airflow.stats import Stats
    from airflow.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
    from airflow.timetables.trigger import CronTriggerTimetable

if RELEASE >= (3, 3):
    from airflow.sdk import BaseDeadlineReference  # type: ignore[attr-defined]
else:
    BaseDeadlineReference = object

__all__ = [
    "RELEASE",
    "AirflowException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "DeltaDataIntervalTimetable",
    "QueuedUnlessBackfill",
    "Stats",
    "conf",
    "deadline",
    "errors_in_one_line",
    "retry_policy",
]


def retry_policy(rules: list[tuple[str, bool, timedelta | None, str]]) -> dict[str, Any]:
    """Return the default argument that decides by (error, again?, after how long, why); the first match counts."""
    if RELEASE < (3, 3):
        return {}
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    made = [
        RetryRule(
            exception=error,
            action=RetryAction.RETRY if again else RetryAction.FAIL,
            retry_delay=delay,
            reason=why,
        )
        for error, again, delay, why in rules
    ]
    return {"retry_policy": ExceptionRetryPolicy(rules=made)}


def errors_in_one_line() -> None:
    """Let this task's log say what an error of ours says, in Airflow's words, without the frames below it."""
    import structlog

    processors = structlog.get_config()["processors"]
    if _one_line not in processors:
        processors.insert(0, _one_line)


def _one_line(_logger: object, _method: str, event: Any) -> Any:
    error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
    if isinstance(error, TwinlogError):
        del event["exc_info"]
        event["event"] = str(error)
    return {name: in_airflow(it) if isinstance(it, str) else it for name, it in event.items()}


class QueuedUnlessBackfill(BaseDeadlineReference):  # type: ignore[misc]
    """Count a deadline from when a run was queued; a run of a backfill has none.

    A backfill queues all of its runs at once, and one copies at a time: Airflow would list them as missed deadlines.
    The scheduler and the API server find this class by the plugin, and ask it when they make a run.
    """

    required_kwargs: ClassVar = {"dag_id", "run_id"}

    def _evaluate_with(self, *, session: Any, dag_id: str, run_id: str) -> datetime | None:
        from airflow.models import DagRun
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        its_run = DagRun.dag_id == dag_id, DagRun.run_id == run_id
        queued: datetime | None = session.scalar(
            select(DagRun.queued_at).where(*its_run, DagRun.run_type != DagRunType.BACKFILL_JOB)
        )
        return queued


def deadline(name: str, after: timedelta, notifier: type, told: Mapping[str, Any]) -> Any:
    """Return the deadline of a Dag whose runs may take so long from when they are queued, or None."""
    if RELEASE < (3, 2):
        return None
    from airflow.sdk import DeadlineAlert, DeadlineReference, SyncCallback  # type: ignore[attr-defined]

    return DeadlineAlert(
        reference=QueuedUnlessBackfill() if RELEASE >= (3, 3) else DeadlineReference.DAGRUN_QUEUED_AT,
        interval=after,
        callback=SyncCallback(notifier, kwargs=dict(told)),
        **({"name": name} if RELEASE >= (3, 3) else {}),
    )
