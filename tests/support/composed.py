"""docker-compose.yaml without containers: its services as processes of this machine, from the same file.

What a container would have of its own is replaced: addresses, folders, and what its image's entry point does (Kafka's
settings out of KAFKA_ variables, PostgreSQL's first start).  Commands, environment, order and health checks are the
file's.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from twinlog.lab.demo.api import AirflowApi
from twinlog.lab.demo.processes import Processes
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.ports import free_ports, free_row

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yaml"
HOST = "127.0.0.1"
HEALTHY_WITHIN_S = 300.0
MOST_RESTARTS = 3
PORTS = free_ports()
BROKERS = {"kafka-a": "A", "kafka-b": "B"}
PROGRAMS = {"prometheus": "prometheus", "node-exporter": "prometheus-node-exporter"}
"""The entry points of images that have one, by their names in Debian, which has no Grafana."""
NOT_HERE = {"grafana"}
OF_THE_HARNESS = re.compile(
    r"KAFKA_(NODE_ID|PROCESS_ROLES|CONTROLLER|LISTENER|INTER_BROKER|LOG_DIRS|ADVERTISED)|CLUSTER_ID"
)
"""Variables of a broker whose values are those of a container."""


@dataclass(frozen=True)
class Places:
    """Where the services are here: the port of each service's port, and the folder for each of the image's."""

    ports: Mapping[tuple[str, str], int]
    folders: Mapping[str, Path]

    def addresses(self, text: str) -> str:
        """Replace `service:port`, the addresses that are published, and folders."""
        for (service, port), own in self.ports.items():
            text = re.sub(rf"(?<![\w.-]){service}:{port}\b", f"{HOST}:{own}", text)
        text = text.replace(f"{HOST}:8080", f"{HOST}:{self.ports['airflow-api-server', '8080']}")
        for there, here in self.folders.items():
            text = text.replace(there, str(here))
        return text

    def own(self, service: str, node: Any) -> Any:
        """Replace a service's own ports, and names of hosts, in its command, environment or health check."""
        if isinstance(node, dict):
            return {key: self.own(service, value) for key, value in node.items()}
        if isinstance(node, list):
            return [self.own(service, value) for value in node]
        if not isinstance(node, str):
            return node
        if node in {name for name, _ in self.ports}:
            return HOST
        for (name, port), own in self.ports.items():
            if name == service:
                node = re.sub(rf"\b{port}\b", str(own), node)
        return re.sub(rf"(?<![\w.-]){service}(?=:\d)", HOST, node)


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """Replace `${NAME:?...}` and `$$`, as Compose does."""
    filled = re.sub(r"(?<!\$)\$\{([A-Z_]+):\?[^}]*\}", lambda found: values[found[1]], text)
    return filled.replace("$$", "$")


def log_name(service: str) -> str:
    """Return what the log of a service is called; Airflow's as in tests with an Airflow of their own."""
    return service.removeprefix("airflow-")


def variables(text: str) -> set[str]:
    """Return the names that a Compose file wants to have from outside."""
    return set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", text))


@dataclass
class Topology:
    """The services that run, and what they are known by."""

    folder: Path
    services: Mapping[str, dict[str, Any]]
    places: Places
    secrets: Mapping[str, str]
    brokers: dict[str, EmbeddedKafka] = field(default_factory=dict)
    running: dict[str, Processes] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    commands: dict[str, list[str]] = field(default_factory=dict)
    restarts: Counter[str] = field(default_factory=Counter)

    def port(self, service: str, port: str) -> int:
        """Return where a service listens here."""
        return self.places.ports[service, port]

    def environment(self, name: str) -> dict[str, str]:
        """Return what the image sets (docker/Dockerfile) and what the file adds for a service."""
        java = os.environ["JAVA_HOME"]
        return {
            "PATH": f"{Path(sys.executable).parent}:{java}/bin:{os.environ['PATH']}",
            "JAVA_HOME": java,
            "HOME": str(self.folder),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONUNBUFFERED": "1",
            # Each container has addresses and ports of its own.
            "SPARK_LOCAL_IP": HOST,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(next(PORTS)),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(next(PORTS)),
            "NO_PROXY": f"{HOST},localhost",
            "no_proxy": f"{HOST},localhost",
            **self.services[name].get("environment", {}),
        }

    @property
    def home(self) -> Path:
        """Return the folder in which `logs/` is."""
        return self.folder

    @cached_property
    def api(self) -> AirflowApi:
        """Return Airflow's API, as its administrator."""
        url = f"http://{HOST}:{self.port('airflow-api-server', '8080')}"
        return AirflowApi(url, "admin", self.secrets["AIRFLOW_ADMIN_PASSWORD"])

    def up(self, stack: ExitStack, name: str) -> None:
        """Start a service behind those that it waits for, and wait until it is healthy or, if it ends, has ended."""
        if name in self.running or name in self.brokers or name in self.finished | NOT_HERE:
            return
        service = self.services[name]
        for other in service.get("depends_on", {}):
            self.up(stack, other)
        if name in BROKERS:
            self.brokers[name] = stack.enter_context(self._broker(name))
        elif name == "postgres":
            self.start_postgres()
            stack.callback(self.stop, name)
        elif service["restart"] == "no":
            self._run(name, service["command"])
            self.finished.add(name)
        else:
            for number in range(service.get("deploy", {}).get("replicas", 1)):
                replica = f"{name}-{number}" if number else name
                self.commands[replica] = self._command(name, service["command"], replica)
                self._start(replica)
                stack.callback(self.stop, replica)
            self.wait_healthy(name)

    def stop(self, replica: str) -> None:
        """End a service, and what it has started."""
        self.running.pop(replica).stop()

    def _command(self, name: str, command: list[str], replica: str) -> list[str]:
        if name in PROGRAMS:
            (port,) = self.services[name]["expose"]
            return [found(PROGRAMS[name]), *command, f"--web.listen-address={HOST}:{port}"]
        if replica != name:  # a container has ports of its own
            own = {str(port) for (service, _), port in self.places.ports.items() if service == name}
            return [str(next(PORTS)) if it in own else it for it in command]
        return command

    def _start(self, replica: str) -> None:
        name = replica.rstrip("-0123456789")
        self.running[replica] = Processes(
            {log_name(replica): self.commands[replica]},
            environment=self.environment(name),
            logs=self.folder / "logs",
        )

    def _run(self, name: str, command: list[str]) -> None:
        log = self.folder / "logs" / f"{log_name(name)}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as output:
            done = subprocess.run(
                command, env=self.environment(name), stdout=output, stderr=output, timeout=300, check=False
            )
        assert 0 == done.returncode, log.read_text()[-3000:]

    def wait_healthy(self, name: str) -> None:
        """Ask the service's own health check until it passes."""
        check = self.services[name]["healthcheck"]["test"][1:]
        deadline = time.monotonic() + HEALTHY_WITHIN_S
        while subprocess.run(check, env=self.environment(name), capture_output=True, check=False).returncode:
            self.check_alive()
            assert time.monotonic() < deadline, f"{name} is not healthy: {self.log(name)[-3000:]}"
            time.sleep(1)

    def check_alive(self) -> None:
        """Do what `restart: unless-stopped` asks for; fail with its log if a service ends time and again."""
        for name in [it for it, processes in self.running.items() if processes.dead()]:
            assert self.restarts[name] < MOST_RESTARTS, f"{name} ended: {self.log(name)[-3000:]}"
            self.restarts[name] += 1
            self.stop(name)
            self._start(name)

    def log(self, name: str) -> str:
        """Return what a service has written."""
        return (self.folder / "logs" / f"{log_name(name)}.log").read_text(errors="replace")

    def restart_postgres(self) -> None:
        """Do what `docker compose restart postgres` does: its image asks for SIGINT, which ends all sessions."""
        (pid,) = self.running["postgres"].sessions
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + 60
        while not self.running["postgres"].dead():
            assert time.monotonic() < deadline, "PostgreSQL does not end"
            time.sleep(0.1)
        self.stop("postgres")
        self.start_postgres()

    def _broker(self, name: str) -> EmbeddedKafka:
        settings = {
            key.removeprefix("KAFKA_").lower().replace("_", "."): value
            for key, value in self.services[name]["environment"].items()
            if not OF_THE_HARNESS.match(key)
        }
        port = self.port(name, "9092")
        return EmbeddedKafka(BROKERS[name], self.folder / name, port=port, settings=settings)

    def start_postgres(self) -> None:
        """Start the database, the first time behind what its image does then: a user, a password, a database."""
        data, password = self.folder / "postgres", self.folder / "postgres.password"
        environment = self.services["postgres"]["environment"]
        user, database = environment["POSTGRES_USER"], environment["POSTGRES_DB"]
        fresh = not data.exists()
        if fresh:
            data.mkdir()
            password.write_text(environment["POSTGRES_PASSWORD"])
            _give(data, password)
            words = ["--auth-host=scram-sha-256", "--auth-local=reject", f"--pwfile={password}"]
            _as_postgres([found("initdb"), "-D", str(data), "-U", user, *words])
        port = str(self.port("postgres", "5432"))
        options = ["-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="]
        self.running["postgres"] = Processes(
            {"postgres": [*_unprivileged(), found("postgres"), "-D", str(data), "-p", port, *options]},
            environment={**os.environ},
            logs=self.folder / "logs",
        )
        login = {"host": HOST, "port": port, "user": user, "password": environment["POSTGRES_PASSWORD"]}
        connection = _connected(login)
        if fresh:
            connection.autocommit = True
            connection.cursor().execute(f'CREATE DATABASE "{database}"')
        connection.close()


@contextmanager
def composed(folder: Path, settings: Sequence[str] = ()) -> Iterator[Topology]:
    """Start the services of docker-compose.yaml; they end with the context.

    `settings` are lines of the configuration file beside those of compose.properties.
    """
    raw = FILE.read_text()
    plain = yaml.safe_load(raw)["services"]
    places = Places(
        # A broker takes two: its own, and the next one for its controller.
        {
            (name, port): free_row(2)[0]
            for name, service in plain.items()
            for port in service.get("expose", ())
        },
        {
            "/opt/twinlog/include/config/compose.properties": folder / "compose.properties",
            "/opt/twinlog": ROOT,
            "/opt/airflow": folder / "airflow",
            "/tmp/spark-conf": folder / "spark-conf",
            "/tmp/spark": folder / "spark",
            "/etc/prometheus": folder / "prometheus",
            "=/prometheus": Path(f"={folder}/prometheus/data"),
        },
    )
    known = {name: secrets.token_urlsafe(32) for name in variables(raw)}
    # Airflow's key has a form of its own: 32 bytes, padded.
    known["AIRFLOW_FERNET_KEY"] = "=".join((secrets.token_urlsafe(32), ""))
    services = yaml.safe_load(places.addresses(raw))["services"]
    services = {name: places.own(name, service) for name, service in services.items()}
    services = yaml.safe_load(interpolated(yaml.safe_dump(services), known))
    config = (ROOT / "include/config/compose.properties").read_text()
    folder.joinpath("compose.properties").write_text(places.addresses(config) + "\n".join(settings) + "\n")
    monitoring = ROOT / "include/config/monitoring"
    shutil.copytree(monitoring, folder / "prometheus")
    scraped = places.addresses((monitoring / "compose.yml").read_text())
    folder.joinpath("prometheus", "compose.yml").write_text(scraped.replace("30s", "2s"))
    for name in ("auth", "logs", "reports", "metrics"):
        folder.joinpath("airflow", name).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        topology = Topology(folder, services, places, known)
        for name in services:
            topology.up(stack, name)
        yield topology


def found(program: str) -> str:
    """Return the path of a program; "" if it is not there.  Debian has PostgreSQL's in a folder of their own."""
    folders = [Path(sys.executable).parent, *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return shutil.which(program, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]])) or ""


def _unprivileged() -> list[str]:
    """Return how a command begins so that it is not root, which PostgreSQL refuses to be."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


def _as_postgres(command: list[str]) -> None:
    done = subprocess.run([*_unprivileged(), *command], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def _give(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            shutil.chown(path, "postgres", "postgres")


def _connected(login: Mapping[str, str]) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(psycopg2.OperationalError):
            return psycopg2.connect(dbname="postgres", **login)
        time.sleep(0.2)
    raise AssertionError("PostgreSQL does not answer")
