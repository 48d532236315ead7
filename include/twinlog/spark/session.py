"""The Spark session: classic (local or a standalone master) or a warm Connect server.

A master is checked before Spark does it, which tries for minutes and reports at length.  A JVM that twinlog starts only
hands out tasks and waits; no record passes through it.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.config.flow.values import AUTO, MASTERS, SPARK_MASTER
from twinlog.errors import ConfigError, TransientError, UsageError
from twinlog.spark import protection
from twinlog.spark.classes import ERRORS_ONLY, SUBMIT_OPTIONS, submit_options
from twinlog.spark.head_start import SAME_WORKERS, HeadStart
from twinlog.spark.slots import cores_wanted
from twinlog.spark.versions import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_SECONDS = 5.0
ADDRESS = re.compile(r"(?P<scheme>spark|sc)://(?P<host>[^:/,;]+|\[[^]]+\]):?(?P<port>\d*)")

PORTS = {"spark": 7077, "sc": 15002}


def check_master(master: str) -> None:
    """Raise UsageError if the text is not a master, TransientError if nothing listens there.

    Only a single host can be tried; several (a standalone cluster with standby masters) are left to Spark.
    """
    if master == AUTO or not SPARK_MASTER.fullmatch(master):
        raise UsageError(f"{master!r} is no Spark master", hint=MASTERS)
    address = ADDRESS.match(master)
    if address is None or "," in master:
        return
    host, port = address["host"].strip("[]"), int(address["port"] or PORTS[address["scheme"]])
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise TransientError(
            f"no Spark session on {without_options(master)}: {host}:{port} does not answer"
            f" ({error.strerror or error})",
            hint="check that the Spark master or Connect server runs there",
            code="spark-session",
            master=without_options(master),
        ) from None


def without_options(master: str) -> str:
    """Remove the options after the address of a Connect server: they may include a token."""
    return master.split(";", 1)[0]


LOCAL_IP = "SPARK_LOCAL_IP"
"""The environment variable of the address at which Spark listens."""


def local_address(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add so that a local master is reached from this machine alone; nothing if it is set already."""
    return {LOCAL_IP: "127.0.0.1"} if master.startswith("local") and LOCAL_IP not in environment else {}


CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""The environment variable by which PySpark remembers that a session on a Connect server was opened."""

log = logging.getLogger(__name__)

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Spark must not retry a lane's task: only a new fence may follow a failure.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "twinlog.spark.daemon",
    # Lanes hold passwords and keys.  PySpark writes a function above this size to a file, in clear, to broadcast it.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.sql.session.timeZone": "UTC",
    **SAME_WORKERS,
}


PLANS_AS_THEY_ARE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A lane's plan has a row for each lane: to compile it takes half a second, and saves nothing."""


@contextmanager
def session(
    master: str,
    app_name: str = "twinlog",
    wanted: int | None = None,
    *,
    meanwhile: str = "",
) -> Iterator[SparkSession]:
    """Open a session on `master` (`local[N]`, `spark://...`, or `sc://...` for Spark Connect); stop it at the end.

    An empty `master` leaves it to spark-submit, which has set it already.  Of a standalone master it takes as many
    cores as `wanted` tasks need, if that is known.  A Connect server, whose sessions others may work in, is given no
    setting.  `meanwhile` is a module to be imported while Spark starts.

    Raises UsageError if `master` is not one or PySpark cannot be used, TransientError if it cannot be reached,
    ConfigError if a standalone master's secret is missing or a Connect server refuses the token.
    """
    require_spark(master)
    if master:
        check_master(master)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    beside = HeadStart()
    if meanwhile:
        beside.import_modules("pandas", meanwhile)  # PySpark needs pandas once the JVM is there
    try:
        spark = (
            _on_connect_server(master)
            if master.startswith("sc://")
            else _classic(master, app_name, wanted, {**CONF, **PLANS_AS_THEY_ARE}, beside)
        )
    except KeyboardInterrupt:
        _say_no_more(master)
        raise
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001  PySpark, py4j and gRPC each have their own; a cause may quote a token
        first_line = protection.without_tokens(reason_of_no_session(error), master)
        if "UNAUTHENTICATED" in str(error):
            raise ConfigError(
                f"the Connect server {without_options(master)} refuses the token, or was given none",
                hint=f"give twinlog the server's token, in {protection.TOKEN_VARIABLE} or twinlog.spark.master",
                code="spark-secret",
                master=without_options(master),
            ) from None
        raise TransientError(
            f"no Spark session on {without_options(master) or 'the master that it was submitted to'}: {first_line}",
            hint="check that the Spark master or Connect server runs, that a JDK 17 or 21 is found, and that its secret"
            " or token is this one",
            code="spark-session",
            master=without_options(master),
        ) from None
    try:
        yield spark
    except KeyboardInterrupt:
        _say_no_more(master)
        raise
    finally:
        beside.wait()
        if (
            master
        ):  # else spark-submit ends it, as this process does; PySpark would wait a second for a thread
            _stop(spark)


def _on_connect_server(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    spark: SparkSession = SparkSession.builder.remote(protection.connect_url(master)).getOrCreate()
    if protection.shares_session(master):
        spark.release_session_on_close = False  # others work in it
    try:
        spark.conf.get(
            "spark.master", None
        )  # PySpark sends nothing until then, so the token has not been checked
    except Exception:
        _stop(spark)  # the next session of this process would be this one
        raise
    return spark


def _classic(
    master: str, app_name: str, wanted: int | None, settings: dict[str, str], beside: HeadStart
) -> SparkSession:
    """Open a session of this process's own JVM, or of the one that spark-submit has started."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.update(submit_options(os.environ))
    if ERRORS_ONLY in os.environ[SUBMIT_OPTIONS]:
        del settings["spark.log.level"]  # Spark would say that it sets it
    os.environ.update(local_address(master, os.environ))
    if master:
        settings = {**settings, "spark.master": master}
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    # PySpark starts a JVM with a command line that every user can see: it must hold no secret.
    with _ctrl_c_held_back():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(settings.items()))
    chosen = dict(SparkConf().getAll())  # with the settings of spark-defaults.conf and spark-submit
    where = master or chosen.get("spark.master", "")
    if not where.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = chosen.get("spark.pyspark.python", sys.executable)
    settings |= cores_wanted(where, chosen, wanted)
    settings |= protection.protection(where, chosen)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    context = SparkContext.getOrCreate(SparkConf().setAll(settings.items()).setAppName(app_name))
    if on_ctrl_c is not None and threading.current_thread() is threading.main_thread():
        # PySpark's handler asks the JVM, whatever it interrupts, and raises what py4j raises.
        signal.signal(signal.SIGINT, on_ctrl_c)
    if not where.startswith("local"):  # a job may have to wait for a slot
        return SparkSession.builder.getOrCreate()
    beside.start_worker(context)
    spark = SparkSession.builder.getOrCreate()
    beside.plan(spark)
    return spark


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Hold back Ctrl-C for the seconds in which PySpark starts its JVM: until then that would outlive this process."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def _say_no_more(master: str) -> None:
    """Silence this process's own Spark: tasks under way end with it, each with a stack trace."""
    if not master.startswith("sc://"):
        from pyspark import SparkContext

        if (context := SparkContext._active_spark_context) is not None:
            context.setLogLevel("OFF")


def reason_of_no_session(error: Exception) -> str:
    """Return the first line of Spark's error, or the last cause in a JVM's pages if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    return (
        (causes or lines or [type(error).__name__])[-1 if causes else 0].removeprefix("Caused by").strip(": ")
    )


def _stop(spark: SparkSession) -> None:
    """Stop a session; if its Spark has died, there is nothing to stop, and no result or error is lost."""
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001  py4j and gRPC have an error each for a process that is gone
        log.warning("the Spark session cannot be stopped: %s: %s", type(error).__name__, error)
    # PySpark leaves it behind, and this process and all that it starts could then open no classic session.
    os.environ.pop(CONNECT_MODE, None)
