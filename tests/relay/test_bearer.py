"""Tokens of OAUTHBEARER logins."""

import base64
import json
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from twinlog.config.connection import ConnectionSettings, SaslSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError
from twinlog.relay import bearer
from twinlog.relay.connection import Connection
from twinlog.relay.kafka_python import sasl_mechanism


def test_an_unsecured_token_is_never_issued_ahead_of_the_brokers_clock(monkeypatch: pytest.MonkeyPatch):
    """A broker cuts its own clock to milliseconds."""
    monkeypatch.setattr(bearer.time, "time", lambda: 1_700_000_000.9996)
    sasl = SaslSettings("OAUTHBEARER", "alice", unsecured_claims=(("role", "writer"),))
    _, claims, signature = bearer.token(sasl).split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    expected = {"sub": "alice", "iat": 1_700_000_000, "exp": 1_700_003_600, "role": "writer"}
    assert (expected, "") == (decoded, signature)


def test_a_token_endpoint_that_is_away_is_a_cluster_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch):
    """Whoever waits for a cluster waits for it, too; the reason says which."""
    sasl = SaslSettings("OAUTHBEARER", "alice", token_endpoint="http://me:mine@127.0.0.1:9/token")
    monkeypatch.setattr(Connection, "_login", lambda it: bearer.token(sasl))
    with socket.create_server(("127.0.0.1", 0)) as broker:
        settings = ConnectionSettings("A", ())
        with pytest.raises(ClusterUnreachable, match=r": token endpoint 127.0.0.1 cannot be reached"):
            Connection(settings, *broker.getsockname())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, ClusterRefused),
        (401, ClusterRefused),
        (408, ClusterUnreachable),
        (429, ClusterUnreachable),
        (503, ClusterUnreachable),
    ],
)
def test_a_token_endpoint_in_trouble_has_not_refused_anybody(
    status: int, expected: type[TwinlogError]
) -> None:
    """What it says of the client is final, what it says of itself is not."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.handle_request, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}/token"
        with pytest.raises(TwinlogError, match=rf"token endpoint 127.0.0.1 answered {status}") as caught:
            bearer.token(SaslSettings("OAUTHBEARER", "alice", token_endpoint=endpoint))
    assert (expected, "oauth") == (type(caught.value), caught.value.code)


def test_extensions_go_to_the_broker_beside_the_token() -> None:
    """KIP-342: key=value, each behind a byte 1."""
    sasl = SaslSettings("OAUTHBEARER", "alice", extensions=(("logicalCluster", "lkc-1"), ("pool", "p")))
    login = sasl_mechanism(sasl, "SASL_SSL", "abc")
    assert b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01pool=p\x01\x01" == login.auth_bytes()
