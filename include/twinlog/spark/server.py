"""A warm Spark that outlives cycles: a Connect server on this machine, found again by its state file.

Starting Spark is nearly all that a small copy costs.  The server listens on loopback alone and asks for a token, which
only this user can read, in the state file beside its log.  All cycles share one of its sessions, so that its Python
workers, which belong to a session, stay warm too; with a session each, it would keep a process more for every cycle.

A server is used only if it was seen to answer, to ask for the token, and to be of this build (`look`).  Otherwise a
copy opens a session of its own, and says why (`choose`).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from twinlog.config.flow.values import ALONE, AUTO
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.process_id import ProcessId, stop_pid
from twinlog.spark.build import BUILD
from twinlog.spark.classes import SUBMIT_OPTIONS, submit_options
from twinlog.spark.protection import PROTECTED, TOKEN_VARIABLE
from twinlog.spark.session import (
    CONF,
    check_master,
    local_address,
    reason_of_no_session,
    session,
)
from twinlog.spark.versions import require_spark

FOLDER_VARIABLE = "TWINLOG_SPARK_FOLDER"
ANSWER_SECONDS = 5.0
START_SECONDS = 180.0
END_SECONDS = 300.0
"""A JVM that writes its classes does so as it ends: 15 s are usual."""
FIRST_JOBS = 3
KEEP_SESSIONS = {"spark.connect.session.manager.defaultSessionTimeout": "-1"}
"""Or a shared session ends after an hour without a cycle, and nobody can use its id again."""

USER = "twinlog"
"""The user of the shared session: whoever names it must name the same one."""

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_FILE, _LOG, _LOCK = "server.json", "spark.log", "lock"


class Health(StrEnum):
    """Name what a look at the server found; each is a line in `twinlog machine spark status`."""

    READY = "ready"
    DEAD = "dead"
    HUNG = "hung"
    OTHER_BUILD = "other version"
    TOKEN = "token"
    BROKEN = "broken"


@dataclass(frozen=True)
class Server:
    """The state file: a server's process, address, token and shared session, and the twinlog that started it."""

    process: ProcessId
    port: int
    token: str
    session: str
    build: str
    master: str

    @property
    def address(self) -> str:
        """Return where it listens, without the token."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def spark_master(self) -> str:
        """Return the address as `twinlog.spark.master` takes it: token and shared session included."""
        return f"{self.address}/;token={self.token};user_id={USER};session_id={self.session}"


@dataclass(frozen=True)
class Seen:
    """A server as it was found just now.  `why` says in one line what is wrong, "" if it is ready."""

    server: Server
    health: Health
    why: str = ""
    memory_mib: int = 0


@dataclass(frozen=True)
class Choice:
    """The Spark master of a copy, and a line for people about it; "" if the configuration names the master."""

    master: str
    line: str = ""


def default_folder() -> Path:
    """Return the folder of this user's server; TWINLOG_SPARK_FOLDER names another one."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else platformdirs.user_data_path("twinlog") / "spark"


def alone(configured: str) -> str:
    """Return the master for work that would hold a shared server's slots for long, such as following."""
    return ALONE if configured == AUTO else configured


def choose(configured: str, folder: Path | None = None) -> Choice:
    """Return the master of a copy: the configured one, or if it is `auto` the warm server, if that can be relied on."""
    if configured != AUTO:
        return Choice(configured)
    server = read(folder or default_folder())
    if server is None:
        return Choice(ALONE)
    seen = look(server)
    if seen.health is Health.READY:
        return Choice(server.spark_master, f"using the warm Spark at {server.address}")
    return Choice(ALONE, f"the warm Spark cannot be used, so this copy starts its own: {seen.why}")


def look(server: Server) -> Seen:
    """Look at a server: whether it lives, is of this build, answers, and asks for its token."""
    if not server.process.is_alive():
        return Seen(
            server,
            Health.DEAD,
            f"dead: its process {server.process.pid} is gone; twinlog machine spark start",
        )
    memory = _memory_mib(server.process.pid)
    if server.build != BUILD:
        why = f"other version: it runs twinlog {server.build}, this is {BUILD}; twinlog machine spark stop, then start"
        return Seen(server, Health.OTHER_BUILD, why, memory)
    health = _asked(server)
    return Seen(server, health, _WHY[health].format(server.process.pid), memory)


_WHY: Mapping[Health, str] = {
    Health.READY: "",
    Health.DEAD: "dead: process {} does not listen any more; twinlog machine spark stop, then start",
    Health.HUNG: f"hung: process {{}} gave no answer in {ANSWER_SECONDS:.0f} s; twinlog machine spark stop, then start",
    Health.TOKEN: "token: process {} refuses the token, or answers without one; twinlog machine spark stop, then start",
    Health.BROKEN: "broken: process {} answers with an error, see its log; twinlog machine spark stop, then start",
}

_BY_STATUS: Mapping[str, Health] = {
    "UNAVAILABLE": Health.DEAD,
    "DEADLINE_EXCEEDED": Health.HUNG,
    "UNAUTHENTICATED": Health.TOKEN,
}


def _asked(server: Server) -> Health:
    """Ask the server twice: with its token it must answer, without one it must refuse."""
    import grpc

    try:
        _master_of(server, server.token)
    except grpc.RpcError as error:
        return _BY_STATUS.get(error.code().name, Health.BROKEN)
    with suppress(grpc.RpcError):
        _master_of(server, "")
        return Health.TOKEN
    return Health.READY


def _master_of(server: Server, token: str) -> str:
    """Ask for the master of the server's Spark, in the shared session.  Raises grpc.RpcError."""
    import grpc
    from pyspark.sql.connect.proto import ConfigRequest, SparkConnectServiceStub, UserContext

    request = ConfigRequest(session_id=server.session, user_context=UserContext(user_id=USER))
    request.operation.get.keys.append("spark.master")
    metadata = [("authorization", f"Bearer {token}")] if token else []
    # The server is on this machine, whatever proxy leads out of it.
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", [("grpc.enable_http_proxy", 0)]) as channel:
        answer: Any = SparkConnectServiceStub(channel).Config(
            request, timeout=ANSWER_SECONDS, metadata=metadata
        )
    return str(answer.pairs[0].value)


def read(folder: Path) -> Server | None:
    """Return what was started in `folder`; None if nothing was, or if the file is not one that `start` wrote."""
    try:
        fields = json.loads((folder / _FILE).read_text())
        return Server(**{**fields, "process": ProcessId(**fields["process"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def start(folder: Path, master: str = ALONE, port: int = 0, jvm: Sequence[str] = ()) -> Seen:
    """Start a server in `folder` and leave it running; return once it has done a job.

    `jvm` are its JVM options, instead of the usual ones.

    Raises UsageError if one lives there already, `master` is not one for a server or PySpark cannot be used,
    TransientError if the port is taken, another start is under way or its first jobs fail, TerminalError if it ends
    before it answers.
    """
    if master.startswith("sc://") or master == AUTO:
        raise UsageError(
            f"a Connect server cannot run on {master.split(';', maxsplit=1)[0]}", hint="such as local[2]"
        )
    require_spark(master)
    check_master(master)
    with _alone(folder):
        refuse_second(folder)
        port = _port(port)
        token = secrets.token_urlsafe(32)
        process = _launch(folder, master, port, token, jvm)
        server = Server(ProcessId.of(process.pid), port, token, str(uuid.uuid4()), BUILD, master)
        _write(folder, server)  # now: if this process is killed, the server can still be found and stopped
        try:
            _wait_until_ready(server, process, folder / _LOG)
            _work_once(server)
        except BaseException:
            stop(folder)
            raise
        return look(server)


def run_once(jvm: Sequence[str]) -> None:
    """Start a server with these JVM options in a folder of its own, end it when it has done a job, wait for its end.

    Raises what `start` does, and TransientError if it does not end.
    """
    with tempfile.TemporaryDirectory(prefix="twinlog-spark-") as folder:
        process = psutil.Process(start(Path(folder), jvm=jvm).server.process.pid)
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            raise TransientError(
                f"Spark did not end in {END_SECONDS:.0f} s",
                hint="try again on a calmer machine",
                code="spark-session",
            ) from None


def refuse_second(folder: Path) -> None:
    """Raise UsageError if the server of `folder` lives, whether it can be used or not."""
    server = read(folder)
    if server is not None and server.process.is_alive():
        raise UsageError(
            f"a warm Spark runs already: process {server.process.pid}, {server.address}",
            hint="twinlog machine spark stop",
            code="spark-running",
        )


def stop(folder: Path) -> bool:
    """End the server of `folder` and forget it; False if there is none alive."""
    server = read(folder)
    if server is None:
        return False
    lived = server.process.is_alive()
    if lived:
        stop_pid(server.process.pid)
    (folder / _FILE).unlink(missing_ok=True)
    return lived


def log_of(folder: Path) -> Path:
    """Return the file into which the server of `folder` writes."""
    return folder / _LOG


def settings(port: int) -> dict[str, str]:
    """Return the server's Spark settings: a classic session's, and where a client finds it.  None is secret."""
    return {
        **CONF,
        **PROTECTED,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **KEEP_SESSIONS,
    }


def _launch(folder: Path, master: str, port: int, token: str, jvm: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start spark-submit, which becomes the JVM, in a session of its own; the token goes by the environment."""
    given = [word for key, value in settings(port).items() for word in ("--conf", f"{key}={value}")]
    submit = Path(sys.executable).with_name("spark-submit")
    environment = {
        **os.environ,
        TOKEN_VARIABLE: token,
        "PYSPARK_PYTHON": sys.executable,
        **({SUBMIT_OPTIONS: " ".join(jvm)} if jvm else submit_options(os.environ)),
        **local_address(master, os.environ),
    }
    with os.fdopen(_private(folder / _LOG), "wb") as output:
        return subprocess.Popen(
            [submit, "--master", master, "--class", _CLASS, *given, "spark-internal"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=folder,
        )


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while (health := _asked(server) if listens(server.port) else Health.DEAD) is not Health.READY:
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise TerminalError(
                f"the warm Spark did not start ({health.value}): {''.join(last)[:300]}",
                hint=f"see {log}",
                code="spark-session",
            )
        time.sleep(0.2)


def _work_once(server: Server) -> None:
    """Run a job that does nothing: Python workers can start, and the first cycle finds them warm.

    A first job may fail on a busy machine (a class of Spark's own is asked of the driver, which does not answer yet),
    so it has FIRST_JOBS tries.  Raises TransientError if none of them is done.
    """
    from pyspark.errors import PySparkException

    from twinlog.spark.lane_task import SCHEMA, start_worker

    for left in reversed(range(FIRST_JOBS)):
        try:
            with session(server.spark_master) as spark:
                spark.range(0, 1, 1, 1).mapInArrow(start_worker, SCHEMA).collect()
            return
        except PySparkException as error:
            if not left:
                raise TransientError(
                    f"the warm Spark did no job: {reason_of_no_session(error)[:300]}",
                    hint="twinlog machine spark start again; the log says more",
                    code="spark-session",
                ) from None


def listens(port: int) -> bool:
    """Say whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(ANSWER_SECONDS)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _port(wanted: int) -> int:
    """Return a port on which nothing listens: the wanted one, or if that is 0 any."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise TransientError(
                f"port {wanted} cannot be had: {error.strerror}",
                hint="choose another with --port",
                code="port",
            ) from None
        return int(probe.getsockname()[1])


def _write(folder: Path, server: Server) -> None:
    """Replace the state file, which only this user can read."""
    new = folder / f".{_FILE}"
    with os.fdopen(_private(new), "w") as file:
        json.dump(asdict(server), file, indent=1)
    new.replace(folder / _FILE)


def _private(path: Path) -> int:
    """Open a new file that only this user can read, in the place of an older one."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock.  Raises TransientError if another start holds it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TransientError(
                f"another twinlog machine spark start is under way in {folder}",
                hint="wait for it",
                code="spark-running",
            ) from None
        yield


def _memory_mib(pid: int) -> int:
    """Return the memory of the server and its Python workers; shared pages count for each of them."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
    return round(total / 2**20)
