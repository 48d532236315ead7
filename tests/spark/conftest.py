"""A standalone Spark master with a worker, and a warm Connect server, from the pip package's own jars."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from twinlog.lab.kafka.ports import free_ports

_SCRIPTS = Path(sys.executable).parent


@contextmanager
def spark_process(
    command: Sequence[str], port: int, folder: Path, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Spark daemon in the foreground of its own session until the block ends; wait for its port."""
    environment = (
        os.environ
        | variables
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder),
        }
    )
    log = folder / f"{Path(command[-1]).name.replace(':', '-').replace('/', '-')}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(_SCRIPTS / command[0]), *command[1:]],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            cwd=folder,
        )
    try:
        deadline = time.monotonic() + 240
        while not _listening(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{command} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield process
    finally:
        with suppress(ProcessLookupError):  # a test may have killed it
            os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spark_defaults(folder: Path, **settings: str) -> Path:
    """A SPARK_CONF_DIR with these settings, as an operator makes it; `a__b` stands for spark.a.b."""
    folder.mkdir(mode=0o700)
    lines = [f"spark.{key.replace('__', '.')} {value}" for key, value in settings.items()]
    file = folder / "spark-defaults.conf"
    file.touch(mode=0o600)
    file.write_text("\n".join(lines) + "\n")
    return folder


@dataclass(frozen=True)
class Standalone:
    """A standalone Spark: `spark://...` of its master, and its workers, each the leader of a process group."""

    url: str
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def standalone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Standalone]]:
    """`standalone(workers, cores)` starts a master and workers, with a secret that the driver has, too.

    The daemons have it as in docker-compose.yaml, the driver from its spark-defaults.conf.
    """
    with ExitStack() as running:

        def start(workers: int, cores: int, **settings: str) -> Standalone:
            secret = secrets.token_hex()
            conf = spark_defaults(
                tmp_path / "conf", authenticate="true", authenticate__secret=secret, **settings
            )
            monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
            daemon = {
                "SPARK_CONF_DIR": str(tmp_path),
                "_SPARK_AUTH_SECRET": secret,
                "SPARK_DAEMON_JAVA_OPTS": "-Dspark.authenticate=true -Dspark.network.crypto.enabled=true",
            }
            port = next(free_ports())
            url = f"spark://127.0.0.1:{port}"
            place = ["--host", "127.0.0.1", "--webui-port"]
            master = ["spark-class", "org.apache.spark.deploy.master.Master", "--port", str(port), *place]
            running.enter_context(spark_process([*master, str(next(free_ports()))], port, tmp_path, **daemon))
            processes = []
            for number in range(workers):
                own, folder = next(free_ports()), tmp_path / f"worker-{number}"
                folder.mkdir()
                command = [
                    *("spark-class", "org.apache.spark.deploy.worker.Worker", "--port", str(own), *place),
                    *(str(next(free_ports())), "--cores", str(cores), "--memory", "1g", url),
                ]
                processes.append(spark_process(command, own, folder, **daemon))
            with ThreadPoolExecutor(workers) as together:
                return Standalone(url, list(together.map(running.enter_context, processes)))

        yield start


@pytest.fixture
def standalone_master(standalone: Callable[..., Standalone]) -> str:
    """`spark://...` of a master with one worker of two cores."""
    return standalone(1, 2).url


@pytest.fixture
def conf_dir(tmp_path: Path) -> Callable[..., str]:
    """Makes a SPARK_CONF_DIR of that name with these settings."""
    return lambda name, **settings: str(spark_defaults(tmp_path / name, **settings))


@contextmanager
def connect_on(master: str, folder: Path, **variables: str) -> Iterator[str]:
    """Run a Connect server on a master until the block ends; `sc://...` of it."""
    port = next(free_ports())
    command = [
        "spark-submit", "--master", master, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false", "spark-internal",
    ]  # fmt: skip
    with spark_process(command, port, folder, **variables):
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture
def guarded_server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """`sc://...` of a Connect server on local[1] that asks for a token, and the token."""
    token = "ab+c/d=="
    with connect_on("local[1]", tmp_path, SPARK_CONNECT_AUTHENTICATE_TOKEN=token) as address:
        yield address, token


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """`sc://...` of a Connect server on local[2]."""
    with connect_on("local[2]", tmp_path) as address:
        yield address


@pytest.fixture
def connect_anywhere(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """`connect_anywhere(master)` starts a Connect server there."""
    with ExitStack() as running:
        yield lambda master: running.enter_context(connect_on(master, tmp_path))
