"""Ask a Spark how many tasks it can run at once, when that is needed: executors come and go.

A classic session knows the executors that are registered now.  Over Spark Connect a client sees no scheduler; but
`spark.range` without a number of partitions makes as many as the scheduler has slots (`defaultParallelism`), so a job
of no work tells them.  A cluster that has just been asked for executors has two slots by that measure until the first
is there.

A cluster may have no slot at all, because other applications hold them.  Then a job waits, and whoever waits for it is
told so: Spark itself says it only to its log.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS = 15.0
"""How long executors of a new session may go on to come before the first answer."""

PAUSE_SECONDS = 1.0
"""Pause between two questions; the first answer is one that has held for so long."""

FIRST_WORD_SECONDS = 15.0
"""How long a job may wait for its first slot before people are told."""

NO_SLOT_SECONDS = 600.0
"""How long it may wait before the master is said to have no free slot, and how often that is said again."""

CORES_MAX: Final = "spark.cores.max"
"""The most cores that an application takes of a standalone master; by default all there are."""

_ROWS = 1 << 16
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
    """The slots of a session on `master`, of which `wanted` are (None: as many as there are)."""

    spark: SparkSession
    master: str
    wanted: int | None = None
    _settled: bool = False

    def now(self) -> int:
        """Return how many tasks run at once, after the first can.  Raises what Spark raises if its first job fails.

        People are told, as warnings in the log, that there is no slot, and that there are fewer than are wanted.
        """
        if found := self._of_local_server() if self._is_remote else self._of_threads():
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

    @property
    def _is_remote(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def _place(self) -> str:
        """Name the master, without the options that may hold a token."""
        return (self.master or self.spark.sparkContext.master).split(";", 1)[0]

    def _of_local_server(self) -> int:
        """Return the slots of a Connect server in `local[N]`, which need no job; else 0."""
        match = _LOCAL.match(self.spark.conf.get("spark.master", "") or "")
        return int(match.group(1)) if match else 0

    def _of_threads(self) -> int:
        """Return the slots of a session in `local[N]`, else 0."""
        context = self.spark.sparkContext
        return int(context.defaultParallelism) if _THREADS.match(context.master) else 0

    def _count(self) -> int:
        """Return the slots there are; if there is none, wait for the first."""
        if not self._is_remote and (found := self._registered()):
            return found
        asked = patiently(self._asked, self._tell)
        return asked if self._is_remote else max(1, self._registered())

    def _registered(self) -> int:
        """Return the slots of the executors that are registered with a classic session; this needs no job."""
        context: Any = self.spark.sparkContext
        executors = context._jsc.sc().statusStore().executorList(True)
        each = [executors.apply(number) for number in range(executors.size())]
        return sum(int(it.maxTasks()) for it in each if it.id() != "driver")

    def _asked(self) -> int:
        """Run a job, which waits for the first executor, with one task for each slot."""
        numbers = self.spark.range(0, _ROWS).selectExpr("spark_partition_id() AS number")
        (last,) = numbers.selectExpr("max(number) AS last").collect()
        return int(last["last"]) + 1

    def _tell(self, seconds: float, free: bool) -> None:
        if free:
            log.warning("%s has a free slot after %.0f s: the run goes on", self._place, seconds)
        elif seconds < NO_SLOT_SECONDS:
            wanted = self.wanted or 1
            which = f"{wanted} slots are" if wanted > 1 else "1 slot is"
            log.warning("%s: %s wanted, 0 are free; the run waits for one", self._place, which)
        else:
            log.warning(
                "no free slot: %s has given this run none for %.0f minutes; it goes on when one is free (end another"
                " application there, give those a lower twinlog.lanes or spark.cores.max, or start a worker)",
                self._place,
                seconds / 60,
            )


def patiently(job: Callable[[], T], tell: Callable[[float, bool], None]) -> T:
    """Run a job in a thread of its own, so that Ctrl-C ends the wait for it, and return its result.

    `tell` is called with the seconds waited so far, and whether the job is done: after FIRST_WORD_SECONDS, after each
    NO_SLOT_SECONDS, and at the end if it was called before.  Raises what the job raises.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(job())
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            done.set_exception(error)

    began = time.monotonic()
    threading.Thread(target=work, daemon=True).start()
    due = FIRST_WORD_SECONDS
    while not wait_for([done], timeout=max(0.0, began + due - time.monotonic())).done:
        tell(time.monotonic() - began, False)
        due = NO_SLOT_SECONDS if due < NO_SLOT_SECONDS else due + NO_SLOT_SECONDS
    result = done.result()
    if due > FIRST_WORD_SECONDS:
        tell(time.monotonic() - began, True)
    return result
