"""Kafka's own Java clients as an application would use them: its console producer and its verifiable consumer."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread
from typing import Any

from twinlog.lab.kafka.jars import class_path, tools_jars
from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.process import JavaProcess


@cache
def _java() -> tuple[str, ...]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return (str(find_java().path), "-Xmx128m", quiet, "-cp", class_path(tools_jars()))


class JavaWriter:
    """A producer that numbers its records; all were acknowledged, or stopping it fails."""

    def __init__(self, cluster: Any, topic: str, first: int = 0, pause: float = 0.002) -> None:
        self.acknowledged: set[int] = set()
        self._stop = Event()
        self._log = Path(mkdtemp()) / "producer.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *_java(),
                    "org.apache.kafka.tools.ConsoleProducer",
                    "--bootstrap-server",
                    cluster.bootstrap_servers,
                    "--topic",
                    topic,
                    "--producer-property",
                    "linger.ms=2",
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )
        self._thread = Thread(target=self._write, args=(first, pause), daemon=True)
        self._thread.start()

    def _write(self, first: int, pause: float) -> None:
        assert self._process.stdin is not None
        for number in itertools.count(first):
            if self._stop.is_set():
                break
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
            self.acknowledged.add(number)
            time.sleep(pause)
        self._process.stdin.close()

    def stop(self) -> None:
        """Let it send what it was given."""
        self._stop.set()
        self._thread.join()
        said = self._process.wait(30), self._log.read_text()
        assert (0, False) == (said[0], "ERROR" in said[1]), said[1]


class JavaReader:
    """A member of a group that notes what it reads and commits each batch behind it, also the last one."""

    def __init__(self, cluster: Any, topic: str, group: str) -> None:
        self.read: list[int] = []
        command = [*_java(), "org.apache.kafka.tools.VerifiableConsumer", "--verbose"]
        command += ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group-id", group]
        self._process = JavaProcess(command, Path(mkdtemp()) / "consumer.log")

    def wait_for(self, numbers: set[int]) -> None:
        """Wait until all of these were read, for half a minute at most."""
        deadline = time.monotonic() + 30
        while not numbers <= set(self._seen()) and time.monotonic() < deadline:
            time.sleep(0.1)

    def stop(self) -> None:
        self._process.stop(30)
        self.read = self._seen()

    def _seen(self) -> list[int]:
        lines = [it for it in self._process.output().splitlines() if it.startswith('{"') and it.endswith("}")]
        return [int(it["value"]) for it in map(json.loads, lines) if it["name"] == "record_data"]
