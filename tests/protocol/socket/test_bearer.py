"""Tokens of OAUTHBEARER logins."""

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.security.connection import ConnectionSettings, SaslSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError
from twinlog.protocol.kafka_python import sasl_mechanism
from twinlog.protocol.socket import login
from twinlog.protocol.socket.connection import Connection


def test_an_unsecured_token_is_never_issued_ahead_of_the_brokers_clock(monkeypatch: pytest.MonkeyPatch):
    """A broker cuts its own clock to milliseconds."""
    monkeypatch.setattr(login.time, "time", lambda: 1_700_000_000.9996)
    sasl = SaslSettings("OAUTHBEARER", "alice", unsecured_claims=(("role", "writer"),))
    _, claims, signature = login.token(sasl).split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    expected = {"sub": "alice", "iat": 1_700_000_000, "exp": 1_700_003_600, "role": "writer"}
    assert (expected, "") == (decoded, signature)


def test_a_token_endpoint_that_is_away_is_a_cluster_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch):
    """Whoever waits for a cluster waits for it, too; the reason says which."""
    sasl = SaslSettings("OAUTHBEARER", "alice", token_endpoint="http://me:mine@127.0.0.1:9/token")
    monkeypatch.setattr(Connection, "_login", lambda it: login.token(sasl))
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
            login.token(SaslSettings("OAUTHBEARER", "alice", token_endpoint=endpoint))
    assert (expected, "oauth") == (type(caught.value), caught.value.code)


@contextmanager
def answering(body: bytes, status: int = 200, **headers: str) -> Iterator[SaslSettings]:
    """A token endpoint that says this to one client, as a login."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.handle_request, daemon=True).start()
        yield SaslSettings("OAUTHBEARER", "alice", token_endpoint=f"http://127.0.0.1:{server.server_port}/t")


def test_a_token_is_read_whatever_else_the_endpoint_says() -> None:
    """`expires_in` and the like are the endpoint's own: the broker says when to log in again."""
    with answering(b'{"access_token": "a.b-c_d~e+f/g==", "expires_in": "soon", "token_type": []}') as sasl:
        assert "a.b-c_d~e+f/g==" == login.token(sasl)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"[]", "its answer is a JSON list, not an object"),
        (b'["access_token"]', "a JSON list"),
        (b'"access_token"', "a JSON string"),
        (b"null", "a JSON null"),
        (b"7", "a JSON number"),
        (b"true", "a JSON boolean"),
        (b"{}", "has no access_token"),
        (b"", "is no JSON"),
        (b"<html>", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"access_token": null}', "its access_token is no bearer token"),
        (b'{"access_token": ""}', "its access_token is no bearer token"),
        (b'{"access_token": 7}', "its access_token is no bearer token"),
        (b'{"access_token": {"a": "secret"}}', "its access_token is no bearer token"),
        (b'{"access_token": "a\\u0001auth=b"}', "its access_token is no bearer token"),
        (b'{"access_token": "' + b"a" * (2 << 20) + b'"}', "its answer is larger than 1,048,576 bytes"),
    ],
)
def test_an_answer_without_a_token_is_an_error_of_ours(body: bytes, part: str) -> None:
    """With a code, and quoting nothing of it: never a task that dies of a KeyError."""
    with (
        answering(body) as sasl,
        pytest.raises(ClusterRefused, match=f"127.0.0.1 gave no token: .*{part}") as caught,
    ):
        login.token(sasl)
    assert ("oauth", False) == (caught.value.code, "secret" in str(caught.value))


def test_a_redirect_is_not_followed() -> None:
    """It may lead to plain http, or to somebody else, and the client secret would go along."""
    elsewhere = answering(b"", 307, Location="http://127.0.0.1:9/")
    with elsewhere as sasl, pytest.raises(ClusterRefused, match="answered 307"):
        login.token(sasl)


def _more(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    names = st.text() | st.just("access_token")
    return st.lists(inner) | st.dictionaries(names, inner)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), _more))
def test_whatever_is_json_is_a_token_or_a_reason(answer: object) -> None:
    """No answer raises anything else."""
    try:
        found = login.access_token(json.dumps(answer).encode())
    except ValueError as error:
        assert str(error).startswith("its ")
    else:
        assert isinstance(answer, dict) and answer["access_token"] == found


def test_extensions_go_to_the_broker_beside_the_token() -> None:
    """KIP-342: key=value, each behind a byte 1."""
    sasl = SaslSettings("OAUTHBEARER", "alice", extensions=(("logicalCluster", "lkc-1"), ("pool", "p")))
    login = sasl_mechanism(sasl, "SASL_SSL", "abc")
    assert b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01pool=p\x01\x01" == login.auth_bytes()
