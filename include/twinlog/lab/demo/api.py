"""The few calls of Airflow's REST API (v2) that the demo and the tests need."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from twinlog.errors import ClusterUnreachable, TerminalError

TIMEOUT_S = 30

# Airflow is on this machine: a proxy in the environment does not apply.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class AirflowApi:
    """One Airflow API server, and the login to it (`[core] simple_auth_manager_users`)."""

    url: str
    user: str
    password: str
    _token: str = field(default="", repr=False)

    def get(self, path: str) -> Any:
        """Send GET `/api/v2/<path>`."""
        return self._call("GET", path)

    def post(self, path: str, body: object) -> Any:
        """Send POST to `/api/v2/<path>`."""
        return self._call("POST", path, body)

    def patch(self, path: str, body: object) -> Any:
        """Send PATCH to `/api/v2/<path>`."""
        return self._call("PATCH", path, body)

    @property
    def token(self) -> str:
        """Return a bearer token of the user; the UI keeps the same in its cookie `_token`."""
        if not self._token:
            answer = _request(
                "POST", f"{self.url}/auth/token", {"username": self.user, "password": self.password}, ""
            )
            self._token = str(answer["access_token"])
        return self._token

    def is_healthy(self) -> bool:
        """Say whether database, scheduler and Dag processor all report health."""
        try:
            parts = _request("GET", f"{self.url}/api/v2/monitor/health", None, "")
        except (ClusterUnreachable, TerminalError):
            return False
        needed = ("metadatabase", "scheduler", "dag_processor")
        return all((parts.get(part) or {}).get("status") == "healthy" for part in needed)

    def dag_ids(self) -> set[str]:
        """Return the ids of the Dags parsed so far."""
        return {dag["dag_id"] for dag in self.get("dags?limit=100")["dags"]}

    def import_errors(self) -> list[str]:
        """Return the import error of each Dag file that has one."""
        return [error["stack_trace"] for error in self.get("importErrors")["import_errors"]]

    def pause(self, dag_id: str, *, paused: bool) -> None:
        """Pause or unpause a Dag."""
        self.patch(f"dags/{quote(dag_id)}", {"is_paused": paused})

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """Start a manual run with these params, and return its run id."""
        answer = self.post(f"dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "conf": conf})
        return str(answer["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a Dag, oldest first."""
        return list(self.get(f"dags/{quote(dag_id)}/dagRuns?order_by=run_after&limit=100")["dag_runs"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return one run."""
        return dict(self.get(f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"))

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        return list(self.get(f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"])

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what a task of a run returned (its XCom `return_value`)."""
        path = (
            f"dags/{quote(dag_id)}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/xcomEntries/return_value"
        )
        return self.get(f"{path}?deserialize=true")["value"]

    def _call(self, method: str, path: str, body: object = None) -> Any:
        return _request(method, f"{self.url}/api/v2/{path}", body, self.token)


def _request(method: str, url: str, body: object, token: str) -> Any:
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {token}"} if token else {}),
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = f"Airflow answered {error.code} to {method} {url}: {error.read().decode(errors='replace')}"
        if error.code >= 500:  # a busy machine's SQLite is locked
            raise ClusterUnreachable(said) from error
        raise TerminalError(said, code="airflow") from error
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        raise ClusterUnreachable(f"Airflow does not answer at {url}: {error}") from error
