"""Ask a Spark how many tasks it can run at once, when that is needed: executors come and go.

A classic session knows the executors that are registered now.  Over Spark Connect a client sees no scheduler; but
`spark.range` without a number of partitions makes as many as the scheduler has slots (`defaultParallelism`), so a job
of no work tells them.  A cluster that has just been asked for executors has two slots by that measure until the first
is there.

A cluster may have no slot at all, because other applications hold them or its executors have gone.  Then a job waits
for ever, and Spark says so only to its log.  So people are told, and work that can be tried again gives up.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from twinlog.errors import TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS = 15.0
"""How long executors of a new session may go on to come before the first answer."""

PAUSE_SECONDS = 1.0
"""Pause between two questions; the first answer is one that has held for so long."""

FIRST_WORD_SECONDS = 15.0
"""How long a job may wait for its first slot before people are told."""

NO_SLOT_SECONDS = 120.0
"""How long it may wait before a copy gives up; to what follows a source it is said that often."""

CORES_MAX = "spark.cores.max"
"""The most cores that an application takes of a standalone master; by default all there are."""

_ROWS = 1 << 16
_NO_EXECUTORS = 2
"""Count the slots that Spark reports for a cluster, even if it has no executors."""

TAG = f"twinlog-{uuid.uuid4().hex}"
"""The tag of this process's jobs of lanes: the session of a warm server has jobs of others, too."""

_QUESTION = f"{TAG}-slots"
_SPLITS = re.compile(r"splits=(\d+)")
_LOCAL = re.compile(r"local\[(\d+)\W")
_THREADS = re.compile(r"local($|\[)")

log = logging.getLogger(__name__)

T = TypeVar("T")


def cores_wanted(master: str, chosen: Mapping[str, str], wanted: int | None) -> dict[str, str]:
    """Return the setting by which a session leaves to others the cores of a standalone master that it does not use.

    `wanted` is the number of its lanes, None if that is not known.  A setting of the user's own stays.  It is a
    multiple of an executor's cores: a standalone master starts no smaller executor.  Pure.
    """
    if wanted is None or not master.startswith("spark://") or CORES_MAX in chosen:
        return {}
    cores = wanted * int(chosen.get("spark.task.cpus", "1"))
    size = int(chosen.get("spark.executor.cores", "1"))
    return {CORES_MAX: str(-(-cores // size) * size)}


@dataclass(slots=True)
class Slots:
    """The slots of a session on `master`, of which `wanted` are (None: as many as there are).

    `patient` says that the work waits for a slot for as long as that takes.
    """

    spark: SparkSession
    master: str
    wanted: int | None = None
    patient: bool = False
    _settled: bool = False

    def now(self) -> int:
        """Return how many tasks run at once, after the first can.  Raises what Spark raises if its first job fails.

        People are told, as warnings in the log, that there is no slot, and that there are fewer than are wanted.
        Raises TransientError (NO_SLOT) if there is no slot for long.
        """
        if found := self._local():
            return found
        found = self._count()
        end = time.monotonic() + SETTLE_SECONDS
        while not self._settled:
            time.sleep(PAUSE_SECONDS)
            before, found = found, self._count()
            self._settled = found == before or time.monotonic() >= end
            if self._settled and found < (self.wanted or 0):
                log.warning("%s: %s slots are wanted, %s are there", self._place, self.wanted, found)
        return found

    def attend(self, job: Callable[[], T], tag: str) -> T:
        """Return the result of a job with this tag, which may take as long as it likes while executors are there.

        Raises what the job raises, and TransientError (NO_SLOT) if all executors have gone for long: it is cancelled.
        """
        if self._local():
            return job()
        alive = time.monotonic()

        def note(*, inflight_tasks: int = 1, **_: object) -> None:
            nonlocal alive
            if inflight_tasks:
                alive = time.monotonic()

        def look(seconds: float, done: bool) -> None:
            if done or self._has_executors():
                note()
            elif time.monotonic() - alive >= NO_SLOT_SECONDS:
                raise self._given_up(tag, seconds)

        remote = is_remote(self.spark)
        if remote:
            self.spark.registerProgressHandler(note)
        try:
            return patiently(job, look, FIRST_WORD_SECONDS, FIRST_WORD_SECONDS)
        finally:
            if remote:
                self.spark.removeProgressHandler(note)

    def _local(self) -> int:
        """Return the slots of a Spark in `local[N]`, which has no executors but itself and needs no job, else 0."""
        if is_remote(self.spark):
            match = _LOCAL.match(self.spark.conf.get("spark.master", "") or "")
            return int(match.group(1)) if match else 0
        context = self.spark.sparkContext
        return int(context.defaultParallelism) if _THREADS.match(context.master) else 0

    def _has_executors(self) -> bool:
        """Say whether there are surely executors; those of a small Connect server cannot be told from none."""
        if not is_remote(self.spark):
            return self._registered() > 0
        found = _SPLITS.search(self.spark.range(0, _ROWS)._explain_string())
        return found is not None and int(found[1]) > _NO_EXECUTORS

    def _given_up(self, tag: str, seconds: float) -> TransientError:
        """Cancel the jobs of a tag, and return the error of what waited for them."""
        from twinlog.copying.copy import NO_SLOT

        cancel(self.spark, tag)
        return TransientError(
            f"no free slot: {self._place} has run nothing of this for {seconds:.0f} s",
            hint="try again when the master's page shows workers with free cores; if a Connect server's application is"
            " not there any more, start that server again",
            code=NO_SLOT,
            master=self._place,
        )

    @property
    def _place(self) -> str:
        """Name the master, without the options that may hold a token."""
        return (self.master or self.spark.sparkContext.master).split(";", 1)[0]

    def _count(self) -> int:
        """Return the slots there are; if there is none, wait for the first."""
        remote = is_remote(self.spark)
        if not remote and (found := self._registered()):
            return found
        asked = patiently(self._asked, self._tell, FIRST_WORD_SECONDS, NO_SLOT_SECONDS)
        return asked if remote else max(1, self._registered())

    def _registered(self) -> int:
        """Return the slots of the executors that are registered with a classic session; this needs no job."""
        context: Any = self.spark.sparkContext
        executors = context._jsc.sc().statusStore().executorList(True)
        each = [executors.apply(number) for number in range(executors.size())]
        return sum(int(it.maxTasks()) for it in each if it.id() != "driver")

    def _asked(self) -> int:
        """Run a job, which waits for the first executor, with one task for each slot."""
        numbers = self.spark.range(0, _ROWS).selectExpr("spark_partition_id() AS number")
        with tagged(self.spark, {_QUESTION}):
            (last,) = numbers.selectExpr("max(number) AS last").collect()
        return int(last["last"]) + 1

    def _tell(self, seconds: float, free: bool) -> None:
        if free:
            log.warning("%s has a free slot after %.0f s: the run goes on", self._place, seconds)
        elif seconds < NO_SLOT_SECONDS:
            wanted = self.wanted or 1
            which = f"{wanted} slots are" if wanted > 1 else "1 slot is"
            log.warning("%s: %s wanted, 0 are free; the run waits for one", self._place, which)
        elif not self.patient and not self._has_executors():
            raise self._given_up(_QUESTION, seconds)
        else:
            log.warning(
                "no free slot: %s has given this run none for %.0f minutes; it goes on when one is free (end another"
                " application there, give those a lower twinlog.lanes or spark.cores.max, or start a worker)",
                self._place,
                seconds / 60,
            )


def flow_tag(flow: str) -> str:
    """Return the tag of the jobs of one flow."""
    return f"{TAG}-{flow}"


def is_remote(spark: SparkSession) -> bool:
    """Say whether a session is on a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def tagged(spark: SparkSession, tags: Collection[str]) -> Iterator[None]:
    """Mark the jobs that this thread starts meanwhile.

    A classic session interrupts only tags of the thread that asks, so there its context is told.
    """
    if is_remote(spark):
        add, remove = spark.addTag, spark.removeTag
    else:
        add, remove = spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag
    for tag in tags:
        add(tag)
    try:
        yield
    finally:
        with suppress(Exception):  # Spark may have died
            for tag in tags:
                remove(tag)


def cancel(spark: SparkSession, tag: str) -> None:
    """Cancel the jobs of a tag, from any thread; Spark kills their tasks' Python workers.

    If Spark has died, its jobs are over.
    """
    try:
        if is_remote(spark):
            spark.interruptTag(tag)
        else:
            spark.sparkContext.cancelJobsWithTag(tag)
    except Exception as error:  # noqa: BLE001  whoever waits for the jobs hears what became of them
        log.warning("Spark's jobs cannot be cancelled: %s", error)


def patiently(job: Callable[[], T], tell: Callable[[float, bool], None], first: float, then: float) -> T:
    """Run a job in a thread of its own, so that Ctrl-C ends the wait for it, and return its result.

    `tell` is called with the seconds waited so far, and whether the job is done: after `first` seconds, after each
    `then` seconds, and at the end if it was called before; what it raises ends the wait.  Raises what the job raises.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(job())
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            done.set_exception(error)

    began = time.monotonic()
    threading.Thread(target=work, daemon=True).start()
    due = first
    while not wait_for([done], timeout=max(0.0, began + due - time.monotonic())).done:
        tell(time.monotonic() - began, False)
        due = then if due < then else due + then
    result = done.result()
    if due > first:
        tell(time.monotonic() - began, True)
    return result
