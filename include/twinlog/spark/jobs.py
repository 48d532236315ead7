"""Jobs of this process in a session that may have those of others: told apart by tags, and waited for in a thread."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAG: Final = f"twinlog-{uuid.uuid4().hex}"
"""The tag of this process's jobs of lanes."""

log = logging.getLogger(__name__)

T = TypeVar("T")


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
