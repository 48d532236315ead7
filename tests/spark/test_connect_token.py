"""How a Connect server's "no" reaches people: a server of gRPC alone, which refuses everybody, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from twinlog.errors import ConfigError
from twinlog.spark.session import session

SEEN: list[str] = []


class Refusing(grpc.GenericRpcHandler):
    """Answers every call as Spark's own interceptor answers one whose token is not the server's."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        SEEN.append(dict(details.invocation_metadata).get("authorization", ""))

        def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")

        return grpc.unary_unary_rpc_method_handler(refuse)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the server."""
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    SEEN.clear()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"sc://127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("", ""),
        ("/;authorization=Bearer%20ab+c/d==", "Bearer ab+c/d=="),
    ],
)
def test_a_refused_token_is_final_and_quoted_nowhere(refusing: str, options: str, sent: str) -> None:
    """Said when the session is opened, not by the first job; what is sent is the token, whatever its signs."""
    with (
        pytest.raises(ConfigError, match="refuses the token, or was given none") as caught,
        session(refusing + options),
    ):
        pytest.fail("was opened")
    assert ("spark-secret", False, [sent]) == (caught.value.code, "ab+c" in str(caught.value), SEEN[:1])
