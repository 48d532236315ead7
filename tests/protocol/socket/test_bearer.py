"""Tokens of OAUTHBEARER logins."""

import base64
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import ConnectionSettings, SaslSettings, TokenProvider
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError, TwinlogError
from twinlog.protocol.kafka_python import sasl_mechanism
from twinlog.protocol.socket import login, msk
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


def jwt(expires: float) -> str:
    """An unsigned token."""
    parts = [base64.urlsafe_b64encode(json.dumps(it).encode()) for it in ({"alg": "none"}, {"exp": expires})]
    return ".".join(part.rstrip(b"=").decode() for part in parts) + "."


def provided(name: str, **options: str) -> SaslSettings:
    """A login by a function of this file, which is given these options."""
    given = tuple((key, Secret(value)) for key, value in options.items())
    return SaslSettings("OAUTHBEARER", token_provider=TokenProvider(f"company_tokens.{name}", given))


@pytest.fixture(autouse=True)
def company_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's own module, as it would be installed."""
    module = ModuleType("company_tokens")
    module.good = lambda audience: (f"for-{audience}", 4e9)
    module.late = lambda: ("old", 1.0)
    module.nothing = lambda: None
    module.broken = lambda: {}["hunter2"]
    monkeypatch.setitem(sys.modules, "company_tokens", module)


def test_a_function_gives_the_token() -> None:
    """It is called with the options of the JAAS entry, and serves both client libraries."""
    sasl = replace(provided("good", audience="kafka"), extensions=(("pool", "p"),))
    assert "for-kafka" == login.token(sasl)
    assert ("for-kafka", 4e9, "twinlog", {"pool": "p"}) == login.for_client(sasl, "")


@pytest.mark.parametrize(
    ("sasl", "expected", "said"),
    [
        (provided("late"), ClusterUnreachable, "company_tokens.late gave a token that has expired"),
        (provided("nothing"), ClusterRefused, "company_tokens.nothing gave no token"),
        (provided("broken"), ClusterUnreachable, "company_tokens.broken failed: KeyError"),
        (provided("absent"), ConfigError, "company_tokens.absent cannot be imported"),
        (provided("good"), ClusterUnreachable, "company_tokens.good failed: TypeError"),
    ],
)
def test_a_function_that_gives_no_token(sasl: SaslSettings, expected: type[TwinlogError], said: str) -> None:
    """What may pass is tried again; what the function's library says may hold a secret, and is not repeated."""
    with pytest.raises(TwinlogError, match=said) as caught:
        login.token(sasl)
    assert (expected, "oauth", False) == (
        type(caught.value),
        caught.value.code,
        "hunter2" in str(caught.value),
    )


def test_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    """Whoever renews the token writes it there; how long it is good is in it."""
    file = tmp_path / "token"
    sasl = SaslSettings("OAUTHBEARER", token_file=str(file))
    for expires in (4e9, 5e9):
        file.write_text(jwt(expires) + "\n")
        assert login.Bearer(jwt(expires), expires) == login.bearer(sasl)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ClusterUnreachable),
        ("opaque", ClusterRefused),
        ("a.b.c", ClusterRefused),
        (jwt(1.0), ClusterUnreachable),
        (jwt(4e9) + "\x00", ClusterRefused),
    ],
)
def test_a_file_without_a_good_token(text: str | None, expected: type[TwinlogError], tmp_path: Path) -> None:
    """One that is missing or has expired may be renewed late; one that holds something else needs a person."""
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TwinlogError, match="token file") as caught:
        login.token(SaslSettings("OAUTHBEARER", token_file=str(file)))
    assert expected is type(caught.value)


class TestMsk:
    """Amazon's library signs; it is not asked to here, because there is no cluster of Amazon's."""

    @pytest.fixture(autouse=True)
    def library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = ModuleType("aws_msk_iam_sasl_signer")
        module.MSKAuthTokenProvider = SimpleNamespace(
            generate_auth_token=lambda region: (f"own-{region}", 4_000_000_000_000),
            generate_auth_token_from_profile=lambda region, profile: (f"{profile}-{region}", 1),
            generate_auth_token_from_role_arn=lambda region, arn, session: (f"{arn}-{session}-{region}", 1),
        )
        monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)

    def test_whose_token(self) -> None:
        """That of the role or profile if one is given; its end is in seconds."""
        assert ("own-eu", 4_000_000_000.0) == msk.token(region="eu")
        assert "dr-eu" == msk.token(region="eu", profile="dr")[0]
        assert "arn-twinlog-eu" == msk.token(region="eu", role_arn="arn")[0]

    def test_the_region(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is that of the brokers' names, else of the environment; it is not guessed."""
        with pytest.raises(ConfigError, match="region"):
            msk.token()
        monkeypatch.setenv("AWS_REGION", "us")
        assert ("own-us", "own-eu") == (msk.token()[0], msk.token(region="eu")[0])

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The package to install is named."""
        monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
        with pytest.raises(ConfigError, match="needs Amazon's library") as caught:
            msk.token(region="eu")
        assert "twinlog[msk]" in str(caught.value.hint)


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


def test_a_token_serves_for_half_of_its_life_unless_it_is_refused() -> None:
    """The endpoint here answers once: another question finds nobody."""
    with answering(b'{"access_token": "a.b", "expires_in": 3600}') as sasl:
        assert ["a.b"] * 3 == [login.token(sasl) for _ in range(3)]
    login.refused(sasl)
    with pytest.raises(ClusterUnreachable):
        login.token(sasl)


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
