"""An alarm has arrived if its address took it, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from twinlog.config.file.providers import Secret
from twinlog.monitoring.alarm import send


@contextmanager
def address(status: int) -> Iterator[Secret]:
    """An address that answers a POST with this status, and a GET with 200."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/login")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Secret(f"http://127.0.0.1:{server.server_port}/token")
    finally:
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (204, ""),
        (302, "the alarm was not taken by twinlog.alert.url: it answers 302, a redirect"),
        (500, "the alarm was not taken by twinlog.alert.url: HTTPError"),
    ],
)
def test_only_2xx_is_taken(status: int, expected: str) -> None:
    """A login page behind a redirect would say 200 to whatever it is asked."""
    with address(status) as url:
        assert expected == send(url, "A->B", "no drill has passed", "run")
