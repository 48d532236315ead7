"""`twinlog machine spark`: a warm Spark for this machine, and an archive of its classes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog.cli.options import option
from twinlog.cli.render import Grid, Lines, say, show
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.spark.server import Seen


class What(StrEnum):
    """Name what to do with the warm Spark, or that an archive of Spark's classes is to be made."""

    START = "start"
    STATUS = "status"
    STOP = "stop"
    CDS = "cds"


@dataclass(frozen=True)
class SparkStatus:
    """The server as it was found just now.  `message` is what is wrong with it, "" if it is ready."""

    state: str
    message: str
    address: str | None
    pid: int | None
    master: str | None
    build: str | None
    memory_mib: int
    log: str


def spark(
    what: Annotated[
        What,
        Argument(
            help="start, and leave it running; show status; stop: jobs it runs end, and what they committed counts;"
            " cds: write an archive of Spark's classes."
        ),
    ],
    master: Annotated[str, option("--master URL", "Where its tasks run: local[N], spark://...")] = "local[2]",
    port: Annotated[
        int, option("--port", "Its port on 127.0.0.1. Default: a free one.", min=0, max=65_535)
    ] = 0,
    folder: Annotated[
        Path | None,
        option(
            "--folder FOLDER",
            "Where its state and log live. Default: the user's data folder. Cycles look into the one of the"
            " variable.",
            envvar="TWINLOG_SPARK_FOLDER",
        ),
    ] = None,
) -> int:
    """Keep a Spark warm on this machine, so that a cycle need not start one; exit 1 when it is not ready.

    It listens on 127.0.0.1 and asks for a token, which is in a file that only this user can read. Flows whose
    `twinlog.spark.master` is `auto` use it. A second one is refused.

    With the archive (the JDK's CDS) a Spark starts in less than half the CPU time. It takes half a minute and 170 MB of
    the user's cache, once; twinlog uses it by itself from then on, and asks for a new one (`twinlog check --machine`)
    when Java or PySpark change. Another spark-submit uses it by the options that are shown.

    Example: `twinlog machine spark start`. Next: `twinlog machine spark status`.
    """
    from twinlog.spark import server

    if what is What.CDS:
        return _archive()
    place = folder or server.default_folder()
    if what is What.STOP:
        say("stopped" if server.stop(place) else "no warm Spark runs")
        return ExitCode.DONE
    if what is What.START:
        say("starting a warm Spark")
        return _report(server.start(place, master, port), place)
    known = server.read(place)
    return _report(server.look(known) if known is not None else None, place)


def _archive() -> int:
    from twinlog.spark.classes import make
    from twinlog.spark.server import run_once

    say("starting a Spark to see which classes it loads")
    made = make(run_once)
    rows = [(round(made.bytes / 1e6), made.java, made.file)]
    show(
        made,
        [
            Grid("archive of Spark's classes", ("MB", "Java", "file"), rows),
            Lines("for a spark-submit of yours", [f"export SPARK_SUBMIT_OPTS='{made.options}'"]),
        ],
    )
    return ExitCode.DONE


def _report(seen: Seen | None, folder: Path) -> int:
    from twinlog.spark.server import log_of

    log = str(log_of(folder))
    if seen is None:
        found = SparkStatus(
            "stopped", "none was started; twinlog machine spark start", None, None, None, None, 0, log
        )
    else:
        it = seen.server
        found = SparkStatus(
            seen.health.value, seen.why, it.address, it.process.pid, it.master, it.build, seen.memory_mib, log
        )
    columns = "state | address | pid | tasks run on: master | version: build | memory, MiB: memory | log"
    grid = Grid.of("warm Spark", columns, [found], memory=lambda it: it.memory_mib or None)
    show(found, [grid])
    if found.message:
        say(found.message)
    return ExitCode.of(found.state == "ready")
