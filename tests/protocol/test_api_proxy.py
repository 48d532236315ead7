"""The proxy that refuses requests (tests/support): it hides them from clients, and passes everything else on."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing

import pytest
from api_proxy import API_VERSIONS, ApiProxy, How, without
from kafka.protocol.metadata import ApiVersionsResponse


def api_versions(version: int, keys: list[int]) -> bytes:
    """An answer with its correlation id, as a broker encodes it."""
    offered = [ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=9) for key in keys]
    answer = ApiVersionsResponse(version=version, error_code=0, api_keys=offered, throttle_time_ms=7)
    answer.with_header(correlation_id=5)
    return bytes(answer.encode(header=True, framed=False))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_hidden_request_is_missing_in_the_answer_and_the_rest_stays(version: int) -> None:
    """At every version: up to 2 with a plain array, from 3 on with a compact one."""
    request = struct.pack(">hhi", API_VERSIONS, version, 5)
    whole = api_versions(version, [*range(200)])
    assert api_versions(version, [0, 1, *range(4, 200)]) == without(whole, request, frozenset({2, 3}))
    assert whole == without(whole, request, frozenset())


def test_other_requests_reach_the_broker_and_refused_ones_do_not() -> None:
    """Counted both ways; a closed request ends its connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            end, _ = server.accept()
            while head := end.recv(4):
                end.sendall(struct.pack(">i", 3) + end.recv(*struct.unpack(">i", head))[-3:])

        threading.Thread(target=serve, daemon=True).start()
        with closing(ApiProxy()) as proxy:
            proxy.broker = server.getsockname()[:2]
            proxy.refuse({7: How.CLOSED})
            with closing(socket.create_connection(("127.0.0.1", proxy.port), timeout=5)) as client:
                client.sendall(struct.pack(">ih", 5, 6) + b"abc")
                assert struct.pack(">i", 3) + b"abc" == client.recv(7)
                client.sendall(struct.pack(">ih", 5, 7) + b"abc")
                assert b"" == client.recv(7)
        assert ({7: 1}, {6: 1, 7: 1}) == (dict(proxy.refusals.hit), dict(proxy.refusals.asked))
