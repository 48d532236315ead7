"""The real MirrorMaker 2 in dedicated mode, as a context manager: for comparisons and migrations.

It is given its mm2.properties as text and keeps them, with its log, in one folder.  It offers no readiness check: wait
for the records it copies.

Cost: 10 to 12 CPU-seconds to start, about 10 s until it copies; 300 MB of memory, 2 GB at most.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from twinlog.errors import TerminalError
from twinlog.lab.kafka.jars import MIRROR_MAKER_VERSION, class_path, mirror_maker_jars
from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.node import JVM, cause_of_death
from twinlog.lab.kafka.process import JavaProcess

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_AS_ITS_SCRIPT = (
    "-Xms256M",
    "-Xmx2G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""Heap and collector as bin/connect-mirror-maker.sh sets them, so that comparisons use the same."""


class MirrorMaker:
    """MM2 with `properties_text` as its mm2.properties, living in `folder`; it dies with us.

    The present `version` speaks to brokers from 2.1 on (KIP-896), that of 3.9 to older ones, too.

    Raises on `start`: TerminalError (`java`), TransientError (`jars`).
    """

    def __init__(self, properties_text: str, folder: Path, version: str = MIRROR_MAKER_VERSION) -> None:
        self.folder = folder
        self.log = folder / "mirror-maker.log"
        self._text = properties_text
        self._version = version
        self._process: JavaProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process id, for measuring its CPU-seconds."""
        return self._started().pid

    def start(self) -> None:
        """Start it, also after it was stopped or killed; its log is continued."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "mm2.properties"
        properties.write_text(self._text)
        java = (find_java().path, *_AS_ITS_SCRIPT, *JVM)
        jars = class_path(mirror_maker_jars(self._version))
        self._process = JavaProcess((*java, "-cp", jars, _MAIN, properties), self.log)

    def require_running(self) -> None:
        """Raise TerminalError (code `mirror-maker`) with its last error if it has died."""
        if not self._started().is_running():
            message = f"MirrorMaker died: {cause_of_death(self.log_text())}"
            raise TerminalError(message, hint=f"read {self.log}", code="mirror-maker")

    def log_text(self) -> str:
        """Return all it has printed so far."""
        return self._started().output()

    def stop(self, patience_s: float = 30.0) -> None:
        """Terminate it and let it write its offsets; kill it after `patience_s` seconds."""
        self._started().stop(patience_s)

    def kill(self) -> None:
        """Kill it (SIGKILL): offsets of the last flush interval are lost, as for every user of MM2."""
        self._started().kill()

    def _started(self) -> JavaProcess:
        if self._process is None:
            raise TerminalError("MirrorMaker has not been started", hint="enter its context or call start")
        return self._process
