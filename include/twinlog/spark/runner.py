"""Run lanes as Spark tasks, one task per lane."""

from __future__ import annotations

import functools
import logging
import pickle
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from twinlog.audit.lane import AuditLaneReport, AuditLaneSpec
from twinlog.copying.copy import TASKS_DIED
from twinlog.errors import TerminalError, TransientError
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.observe.lane import ObserveLaneReport, ObserveLaneSpec
from twinlog.spark.build import BUILD
from twinlog.spark.lane_task import SCHEMA, copy_lanes, reports, start_worker
from twinlog.spark.protection import require_safe_way
from twinlog.spark.reading_tasks import audit_lanes, observe_lanes, parser_of
from twinlog.spark.session import session
from twinlog.spark.slots import TAG, Slots, cancel, flow_tag, is_remote, tagged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

log = logging.getLogger(__name__)

Spec = TypeVar("Spec", LaneSpec, AuditLaneSpec, ObserveLaneSpec)
Report = TypeVar("Report", LaneReport, AuditLaneReport, ObserveLaneReport)

_EXCEPTION_LINE = re.compile(r"[\w.]+(Error|Exception): ")


@dataclass(frozen=True, slots=True)
class Work(Generic[Spec, Report]):
    """Tell what a job's tasks do with their lanes, how their answers are read, and the words for a job that fails."""

    task: Callable[[bytes, str, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    parse: Callable[[str], Report]
    whose: str
    hint: str

    def failed(self, lanes: Sequence[Spec], reason: str) -> TransientError:
        """Return the error of a job that died, with the flow if its lanes name one."""
        flows = [lane.flow for lane in lanes if isinstance(lane, LaneSpec)][:1]
        what = f"the Spark job {self.whose.format(*flows)} failed: {reason}"
        return TransientError(what, hint=self.hint, code=TASKS_DIED, **{"flow": flows[0]} if flows else {})


class SparkRunner(Generic[Spec, Report]):
    """Runs lanes of a copy or an audit over a Spark session, classic or Connect (driver)."""

    def __init__(
        self, spark: SparkSession, work: Work[Spec, Report], master: str, wanted: int | None = None
    ) -> None:
        self._spark = spark
        self._work: Work[Spec, Report] = work
        self._master = master
        self._slots = Slots(spark, master, wanted)

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once now; wait until one can (spark/slots.py).

        Raises TransientError if Spark does not answer, or has no slot for long (NO_SLOT).
        """
        try:
            return self._slots.now()
        except TransientError:
            raise
        except Exception as error:
            raise TransientError(
                f"Spark does not tell how many tasks it can run: {reason_of(error)}",
                hint="nothing was copied; look at the Spark master's page for its workers",
                code="spark-session",
            ) from error

    def run(self, lanes: Sequence[Spec]) -> tuple[Report, ...]:
        """Run one job with exactly one task per lane (`spark.range` does that; a repartition does not).

        Raises TransientError if a task died without a report, Spark itself did or its executors have gone; ConfigError
        if the way to the tasks is not safe for what the lanes hold; TerminalError if a worker runs a twinlog other than
        the driver's, or the executors' Python cannot run it at all (`executor-python`).
        """
        require_safe_way(self._master, lanes)
        task = functools.partial(self._work.task, pickle.dumps(tuple(lanes)), BUILD)
        own = f"{TAG}-{uuid.uuid4().hex}"
        tags = {TAG, own, *(flow_tag(lane.flow) for lane in lanes if isinstance(lane, LaneSpec))}

        def job() -> list[Row]:
            with tagged(self._spark, tags):
                found: list[Row] = (
                    self._spark.range(0, len(lanes), 1, len(lanes)).mapInArrow(task, SCHEMA).collect()
                )
            return found

        try:
            rows = self._slots.attend(job, own)
        except TransientError:
            raise
        except Exception as error:
            raise refusal(str(error)) or self._work.failed(lanes, reason_of(error)) from error
        return tuple(map(self._work.parse, reports(rows)))

    def audits(self) -> SparkRunner[AuditLaneSpec, AuditLaneReport]:
        """Return a runner of an audit over the same session."""
        return SparkRunner(self._spark, AUDIT, self._master)

    def looks(self) -> SparkRunner[ObserveLaneSpec, ObserveLaneReport]:
        """Return a runner of looks at a copy that another engine makes, over the same session."""
        return SparkRunner(self._spark, OBSERVE, self._master)

    def warm(self) -> None:
        """Make Spark start a Python worker, which stays for the first lane; a start after the fence delays records.

        A Connect server has workers already, and its slots may all be taken.  If a session cannot do it, `run` reports
        why.  A cluster without a free slot is waited for, from now on for as long as that takes.
        """
        self._slots.patient = True
        if is_remote(self._spark):
            return
        with suppress(Exception):
            self._slots.now()
            self._spark.range(0, 1, 1, 1).mapInArrow(start_worker, SCHEMA).collect()

    def cancel(self, flow: str | None = None) -> None:
        """Cancel this process's jobs of lanes, or those of one flow, from any thread."""
        cancel(self._spark, TAG if flow is None else flow_tag(flow))


COPY: Work[LaneSpec, LaneReport] = Work(
    copy_lanes,
    parser_of(LaneReport),
    "of {}",
    "what was committed counts; the driver fences again",
)
AUDIT: Work[AuditLaneSpec, AuditLaneReport] = Work(
    audit_lanes,
    parser_of(AuditLaneReport),
    "of the audit",
    "nothing was remembered; audit again",
)
OBSERVE: Work[ObserveLaneSpec, ObserveLaneReport] = Work(
    observe_lanes,
    parser_of(ObserveLaneReport),
    "that observes",
    "nothing was remembered; the next cycle looks again",
)


def reason_of(error: Exception) -> str:
    """Find the line that says what happened in the pages of a Spark error."""
    if isinstance(error, ConnectionError):  # as it is, it would be taken for a broker's error
        return f"Spark's JVM does not answer: {error}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (named or lines or [type(error).__name__])[-1 if named else 0]


@contextmanager
def open_runner(
    master: str, app_name: str = "twinlog", wanted: int | None = None
) -> Iterator[SparkRunner[LaneSpec, LaneReport]]:
    """Open a session on `master` and yield a runner of a copy over it, which wants that many slots, None: all."""
    with session(master, app_name, wanted) as spark:
        yield SparkRunner(spark, COPY, master, wanted)


@contextmanager
def open_audit_runner(
    master: str, app_name: str = "twinlog audit"
) -> Iterator[SparkRunner[AuditLaneSpec, AuditLaneReport]]:
    """Open a session on `master` and yield a runner of an audit over it."""
    with session(master, app_name) as spark:
        yield SparkRunner(spark, AUDIT, master)


EXECUTOR_PYTHON = "executor-python"


@dataclass(frozen=True, slots=True)
class _Reason:
    pattern: re.Pattern[str]
    message: str
    hint: str


_REASONS = (
    _Reason(
        re.compile(r"No module named '?(twinlog)'?(?![.\w])"),
        "the executors' Python has no module {0}",
        "install twinlog on the executors' machines, or ship it (docs/howto/spark-clusters.md)",
    ),
    _Reason(
        re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.*?)(?:, PySpark cannot.*)?$", re.MULTILINE),
        "{0}",
        "give executors and driver the same Python: spark.pyspark.python",
    ),
    _Reason(  # with another number, such as 12 (no memory), it may go away
        re.compile(r'Cannot run program "([^"]*)".*error=2\b'),
        "the executors' machines have no {0}",
        "name a Python that the executors' machines have in spark.pyspark.python",
    ),
)


def refusal(error: str) -> TerminalError | None:
    """Return the error of executors whose Python is missing, of another version, or without twinlog; else None."""
    for reason in _REASONS:
        if found := reason.pattern.search(error):
            return TerminalError(
                reason.message.format(found[1].strip()), hint=reason.hint, code=EXECUTOR_PYTHON
            )
    return None
