import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from twinlog.lab.demo.api import AirflowApi


@pytest.fixture
def url() -> Iterator[str]:
    """An API server that logs everybody in and answers with the path it was asked for."""

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer({"access_token": "token"})

        def do_GET(self) -> None:
            self._answer({"path": self.path})

        def _answer(self, body: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_this_machine_is_asked_without_a_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says: a proxy knows nothing of a server that listens here alone."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    assert {"path": "/api/v2/dags"} == AirflowApi(url, "admin", "password").get("dags")
