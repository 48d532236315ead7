"""Clients are switched by a command, a call or a file, each tried until it works or the attempts are used up."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from twinlog.config.file.providers import Secret
from twinlog.config.flow.settings import FailoverSettings
from twinlog.judge.check import Mode
from twinlog.recovery.steps.client_switch import event_of, switch, way_of


@pytest.fixture
def event(flow) -> dict:
    return event_of(flow, "run-1", Mode.PLANNED, 7)


def test_the_command_gets_the_event_twice(event, tmp_path: Path):
    """As JSON on stdin, and in its environment."""
    out = tmp_path / "out"
    code = f"import os,sys; open({str(out)!r}, 'w').write(os.environ['TWINLOG_TARGET'] + sys.stdin.read())"
    settings = FailoverSettings(hook_command=f'{sys.executable} -c "{code}"')
    assert ("", 1) == switch(settings, event, lambda _: None)
    assert ("B", event) == (out.read_text()[:1], json.loads(out.read_text()[1:]))


def test_the_command_gets_no_password_of_ours(event, tmp_path: Path, monkeypatch):
    """What Airflow handed over to the job stays there; the rest of the environment is the operator's."""
    for name in ("TWINLOG_AIRFLOW_CONNECTIONS", "AIRFLOW_CONN_B", "AIRFLOW__CORE__FERNET_KEY", "KUBECONFIG"):
        monkeypatch.setenv(name, "x")
    out = tmp_path / "out"
    code = f"import os; open({str(out)!r}, 'w').write(' '.join(os.environ))"
    settings = FailoverSettings(hook_command=f'{sys.executable} -c "{code}"')
    assert ("", 1) == switch(settings, event, lambda _: None)
    names = set(out.read_text().split())
    assert {"KUBECONFIG", "PATH", "TWINLOG_RUN"} == names & {"KUBECONFIG", "PATH", "TWINLOG_RUN"}
    assert {f"TWINLOG_{key.upper()}" for key in event} == {
        it for it in names if it.startswith(("TWINLOG_", "AIRFLOW_"))
    }


def test_a_command_that_does_not_exist_is_an_answer(event):
    """Not a traceback in the middle of a disaster."""
    why, attempts = switch(FailoverSettings(hook_command="/no/such/thing"), event, lambda _: None)
    assert ("the command cannot be run" in why, 3) == (True, attempts)


def answers(*statuses: int) -> tuple[HTTPServer, list[tuple[str, dict]]]:
    """Serve these answers, the last one for ever, on a free port; the list gets each call, by method."""
    got: list[tuple[str, dict]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.command, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.answer()

        def do_GET(self) -> None:
            got.append((self.command, {}))
            self.answer()

        def answer(self) -> None:
            self.send_response(statuses[min(len(got), len(statuses)) - 1])
            self.send_header("Location", "/login")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    return server, got


def test_a_call_is_tried_again(event):
    """The first answer is an error, the second is well."""
    server, got = answers(503, 204)
    try:
        url = Secret(f"http://127.0.0.1:{server.server_port}/token")
        assert ("", 2) == switch(FailoverSettings(hook_url=url), event, lambda _: None)
    finally:
        server.shutdown()
    assert [("POST", event), ("POST", event)] == got


def test_a_redirect_is_no_success(event):
    """Followed, it would be a GET without the event, whose page says 200."""
    server, got = answers(302, 200)
    try:
        settings = FailoverSettings(
            hook_url=Secret(f"http://127.0.0.1:{server.server_port}/"), hook_attempts=1
        )
        assert ("the answer was 302", 1) == switch(settings, event, lambda _: None)
    finally:
        server.shutdown()
    assert [("POST", event)] == got


def test_a_call_that_fails_does_not_tell_the_address(event):
    """It may hold a token."""
    why, _ = switch(FailoverSettings(hook_url=Secret("http://127.0.0.1:1/token")), event, lambda _: None)
    assert ("the call failed", False) == (why.partition(":")[0], "token" in why)


@pytest.mark.parametrize("name", ["clients.json", "clients.yaml"])
def test_a_file_is_written_whole(event, tmp_path: Path, name: str):
    """JSON, or a ConfigMap; nothing else is left in the folder."""
    path = tmp_path / "mounted" / name
    assert ("", 1) == switch(FailoverSettings(hook_file=path), event, lambda _: None)
    text = path.read_text()
    assert [name] == [it.name for it in path.parent.iterdir()]
    if name.endswith("json"):
        assert event == json.loads(text)
    else:
        assert "kind: ConfigMap" in text
        assert f"bootstrap.servers: {json.dumps(event['target_bootstrap_servers'])}" in text


def test_without_a_hook_there_is_no_way():
    """The step is skipped then."""
    assert "" == way_of(FailoverSettings())
