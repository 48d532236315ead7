"""A real Airflow in one folder: API server, scheduler with LocalExecutor, Dag processor, SQLite."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from twinlog.errors import TerminalError
from twinlog.lab.demo.api import AirflowApi
from twinlog.lab.demo.processes import Processes
from twinlog.lab.kafka.ports import free_ports
from twinlog.shipped import folder

COMPONENTS = ("api-server", "scheduler", "dag-processor")
TRIGGERER = "triggerer"
ADMIN = "admin"
_QUIET = dict.fromkeys(("scheduler", TRIGGERER), ("--skip-serve-logs",))
"""Without it they serve the tasks' logs to the whole network; the API server reads them from the folder."""

START_TIMEOUT_S = 300


class AirflowInstance:
    """Airflow working from this project's dags/ and plugins/ and one configuration file.

    `home` is its AIRFLOW_HOME.  It reads and writes nothing outside of it, and takes no setting (`AIRFLOW_...`) of
    another Airflow from the environment.  Users log in with a password made for this instance.  Only deferrable tasks
    need the TRIGGERER among the `components`.  If `watched`, it dies with this process; otherwise call `stop`.
    """

    def __init__(
        self,
        home: Path,
        config: Path,
        *,
        dags: Path | None = None,
        settings: Mapping[str, str] | None = None,
        components: Sequence[str] = COMPONENTS,
        watched: bool = True,
    ) -> None:
        self.home = home
        self._watched = watched
        self._components = components
        self._port = next(free_ports())
        self._password = secrets.token_urlsafe(12)
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")}
        self.environment = {**inherited, **self._settings(config, dags or folder("dags")), **(settings or {})}
        self.api = AirflowApi(f"http://127.0.0.1:{self._port}", ADMIN, self._password)
        self._processes: Processes | None = None

    def _settings(self, config: Path, dags: Path) -> dict[str, str]:
        """Return the environment of all components: two cores, no examples, reachable from this machine alone."""
        return {
            "TWINLOG_CONFIG": str(config),
            "PYTHONUNBUFFERED": "1",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder("plugins")),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self._port}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,viewer:viewer",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{self._port}",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(next(free_ports())),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "GX_ANALYTICS_ENABLED": "False",
            # The components talk to each other on this machine, whatever proxy leads out of it.
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        }

    def start(self) -> None:
        """Create the database and start the components; `wait_until_healthy` returns once they work."""
        self.home.mkdir(parents=True, exist_ok=True)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({ADMIN: self._password, "viewer": self._password}))
        self.command("db", "migrate")
        self._processes = Processes(
            {
                name: [sys.executable, "-m", "airflow", name, *_QUIET.get(name, ())]
                for name in self._components
            },
            environment=self.environment,
            logs=self.home / "logs",
            watched=self._watched,
        )

    def command(self, *words: str, timeout_s: float = 120) -> str:
        """Run one `airflow` command and return its stdout.  Raises TerminalError if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise TerminalError(f"airflow {' '.join(words)} failed: {''.join(last)}", code="airflow")
        return done.stdout

    def command_alone(self, *words: str) -> str:
        """Run one `airflow` command while the scheduler is stopped; as `command`.

        For a command that reads before it writes: SQLite refuses it if another process wrote in between.
        """
        assert self._processes is not None, "start it first"
        with self._processes.held("scheduler"):
            return self.command(*words)

    def wait_until_healthy(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once every component reports health.  Raises TerminalError if one dies or time is up."""
        deadline = time.monotonic() + timeout_s
        while not self.api.is_healthy():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TerminalError(
                    f"Airflow was not healthy within {timeout_s:.0f} s", hint=f"see {self.home / 'logs'}"
                )
            time.sleep(0.3)

    def check_alive(self) -> None:
        """Raise TerminalError, with the end of its log, if a component has died."""
        if self._processes is None:
            return
        for name in self._processes.dead():
            log = self._processes.log(name)
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise TerminalError(f"Airflow's {name} ended: {''.join(last)}", hint=f"see {log}", code="airflow")

    @property
    def sessions(self) -> tuple[int, ...]:
        """Return the session of each component, for `twinlog.lab.demo.processes.stop_sessions`."""
        return self._processes.sessions if self._processes else ()

    def stop(self) -> None:
        """End every component and the processes it has started."""
        if self._processes is not None:
            self._processes.stop()
            self._processes = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
