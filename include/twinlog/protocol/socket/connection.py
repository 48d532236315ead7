"""Hold one blocking connection to one broker: requests out, answers in, strictly in order.

Several requests may be in flight; Kafka answers them in the order in which they were sent.  Any failure closes the
connection.  The effect of the requests in flight is then unknown, and the caller decides what that means.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from twinlog.config.security.connection import ConnectionSettings, SaslSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.protocol import kafka_python
from twinlog.protocol.errors import NO_LOGIN, Code, bad_login, tls_failed, unreachable
from twinlog.protocol.kafka_python import Api
from twinlog.protocol.socket import kerberos, login
from twinlog.protocol.socket.encryption import Encryption
from twinlog.protocol.socket.socket_io import Receiver, Sender
from twinlog.protocol.transactions import ADD_PARTITIONS, END_TXN
from twinlog.protocol.wire import FETCH, PRODUCE, Buffer, framed

_T = TypeVar("_T")
_HEAD = struct.Struct(">ii")
_MAX_ANSWER = 1 << 30
_NEVER = -1, -1
_NAMES = {PRODUCE: "Produce", FETCH: "Fetch", ADD_PARTITIONS: "AddPartitionsToTxn", END_TXN: "EndTxn"}
"""The requests that are sent without kafka-python."""

_LOOK_SECONDS = 0.1
"""Seconds that a write may take before we check whether the broker waits for us to read."""


class Connection:
    """A connection to the broker at `host:port`, logged in and ready for requests.

    Raises ClusterUnreachable if the broker does not answer, or is not the node of the cluster that is `expected` (which
    brokers tell from 4.4 on), ClusterRefused if it refuses TLS or the login.

    `muted_until` (monotonic seconds): a broker that throttles answers at once, and then reads nothing more from the
    connection for the time that the answer names (KIP-219).  Whoever sends or waits for an answer sleeps until then.
    """

    def __init__(
        self, settings: ConnectionSettings, host: str, port: int, expected: tuple[str, int] | None = None
    ) -> None:
        self._settings = settings
        self._host = host
        self._address = f"{host}:{port}"
        self._correlations = itertools.count(1)
        self._in_flight: deque[int] = deque()
        self._asked = ""
        self._early: deque[memoryview] = deque()
        self._reauthenticate_at = float("inf")
        self.muted_until = 0.0
        self._spans: dict[int, tuple[int, int]] = {}
        self._socket = self._connect(host, port)
        try:
            encryption = self._encrypted(host) if settings.protocol.tls else None
        except BaseException:
            self._socket.close()
            raise
        self._receiver = Receiver(self._socket, encryption)
        self._sender = Sender(self._socket, self._receiver, encryption)
        try:
            self._login()
            if expected:
                self._expect(*expected)
        except ClusterUnreachable as error:
            self.close()
            raise self._unreachable(error.data.get("reason", error.message)) from None
        except BaseException:
            self.close()
            raise
        _block_for(self._socket, settings.request_timeout_ms)

    @property
    def address(self) -> str:
        """Return `host:port` of the broker."""
        return self._address

    @property
    def in_flight(self) -> int:
        """Return the number of requests sent and not yet answered."""
        return len(self._in_flight)

    @property
    def buffered(self) -> bool:
        """Say whether an answer, or (by TLS) part of one, was already taken from the socket."""
        return bool(self._early) or self._receiver.early

    @property
    def ended(self) -> bool:
        """Say whether we or the broker closed it; a close by the broker shows only while no request is in flight."""
        if self.fileno() < 0:
            return True
        # If no request is in flight, any readable data is the end of the connection, or its announcement by TLS.
        return not self._in_flight and bool(answering([self], 0.0))

    def fileno(self) -> int:
        """Return the socket's descriptor, for `answering`."""
        return self._socket.fileno()

    def offers(self, api: int) -> int:
        """Return the highest version of a request that the broker accepts, -1 if none."""
        return self._spans.get(api, _NEVER)[1]

    def require_target(self) -> None:
        """Raise ClusterRefused (code `broker-version`) if the broker is too old to copy to."""
        kafka_python.require(self._spans, self._settings.alias, self._address, target=True)

    def mute(self, throttle_ms: int) -> None:
        """Note that the broker reads nothing more for a while."""
        self.muted_until = max(self.muted_until, time.monotonic() + throttle_ms / 1000)

    def _await_broker(self) -> None:
        if self.muted_until:
            time.sleep(max(0.0, self.muted_until - time.monotonic()))
            self.muted_until = 0.0

    def close(self) -> None:
        """Close the socket; answers in flight are lost."""
        self._sender.close()
        self._socket.close()
        self._early.clear()

    def keep_login(self) -> None:
        """Log in again if the session is about to end.  Call while no request is in flight."""
        if not self._in_flight and time.monotonic() > self._reauthenticate_at:
            self._login()

    def send(self, api: int, version: int, *bodies: Sequence[Buffer], write_behind: bool = False) -> None:
        """Send requests, each made of buffers, without joining the buffers.  `receive` reads the answers, in order.

        With `write_behind`, large requests may still be on their way when this returns: their buffers must stay
        unchanged until `flush`, `receive` or the next `send` has returned.
        """
        self._asked = _NAMES[api]
        self._require_offered(api, self._asked)
        self._await_broker()
        requests: list[list[Buffer]] = []
        for body in bodies:
            correlation = next(self._correlations)
            requests.append(framed(api, version, correlation, self._settings.client_id, body))
            self._in_flight.append(correlation)
        self._guard(self._let_out)
        self._guard(lambda: self._sender.send(requests, write_behind=write_behind))

    def flush(self) -> None:
        """Wait until the kernel has taken everything sent, so that its buffers may be used again."""
        self._guard(self._let_out)

    def receive(self, allocate: Callable[[int], memoryview]) -> memoryview:
        """Read the next answer into `allocate(size)`; return the part behind the correlation id.

        The result points into the allocated memory.
        """
        self._await_broker()
        return self._guard(lambda: self._receive(allocate))

    def version_of(self, api: Api) -> int:
        """Return the highest version of a request that both sides know."""
        return min(api.version, self._spans.get(api.request.API_KEY, (0, api.version))[1])

    def ask(self, api: int, version: int, body: Buffer) -> memoryview:
        """Send one request and wait for its answer, which begins with its throttle.  As `call`."""
        self.send(api, version, [body])
        answer = self.receive(fresh_buffer)
        if throttle_ms := int.from_bytes(answer[:4], "big"):
            self.mute(throttle_ms)
        return answer

    def call(self, api: Api, **fields: Any) -> Any:
        """Send one request and wait for its answer.  Only on a connection with no request in flight."""
        return self.call_each(api, [fields])[0]

    def call_each(self, api: Api, requests: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send several requests before reading the first answer; return the answers in the same order.

        Only for small requests: we do not read while we send, so all answers together have to fit into the socket's
        buffers.
        """
        self._asked = api.name
        self._require_offered(api.request.API_KEY, api.name)
        self._await_broker()
        version = self.version_of(api)
        correlations = [next(self._correlations) for _ in requests]
        frames = [
            kafka_python.encode(api, version, correlation, self._settings.client_id, fields)
            for correlation, fields in zip(correlations, requests, strict=True)
        ]
        self._in_flight.extend(correlations)
        self._guard(lambda: self._sender.send([frames]))
        received = [self._guard(lambda: self._receive(fresh_buffer, keep_correlation=True)) for _ in requests]
        answers = [kafka_python.decode(api, version, answer) for answer in received]
        if throttle_ms := max(
            (getattr(answer, "throttle_time_ms", None) or 0 for answer in answers), default=0
        ):
            self.mute(throttle_ms)
        return answers

    def _require_offered(self, key: int, name: str) -> None:
        """Raise ClusterRefused (code `not-offered`) for a request that is not in the broker's ApiVersions answer."""
        if self._spans and key not in self._spans:
            raise kafka_python.not_offered(name, self._settings.alias, self._address)

    def _connect(self, host: str, port: int) -> socket.socket:
        settings = self._settings
        try:
            plain = socket.create_connection((host, port), timeout=settings.connect_timeout_ms / 1000)
        except OSError as error:
            raise self._unreachable(error.strerror or str(error)) from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # as Kafka's own clients do
        # Logging in counts as connecting: a host that accepts connections but stays silent is not a broker.
        _block_for(plain, settings.connect_timeout_ms)
        return plain

    def _encrypted(self, host: str) -> Encryption:
        """Make the TLS handshake."""
        encryption = Encryption(login.context(self._settings.tls), host)
        try:
            encryption.shake_hands(self._socket)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # It is shutting down, or the load balancer has no broker behind it.
            raise self._unreachable(
                "it ended the connection during the TLS handshake; is that a TLS listener?"
            ) from None
        except ssl.SSLError as error:
            raise tls_failed(self._settings.alias, error.reason or str(error), self._address) from None
        except OSError as error:
            raise self._lost(error) from None
        return encryption

    def _login(self) -> None:
        """Learn the broker's versions, which may be asked before a login, then run the SASL exchange.

        Repeated on the live connection before the session's lifetime ends (KIP-368): a broker closes connections that
        stay beyond it.
        """
        if not self._spans:
            answer = self.call(kafka_python.API_VERSIONS)
            spans = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
            kafka_python.require(spans, self._settings.alias, self._address)
            self._spans = spans
        self._reauthenticate_at = float("inf")
        sasl = self._settings.sasl
        if self._settings.protocol.sasl and sasl is not None:
            mechanism = self._mechanism(sasl)
            handshake = self.call(kafka_python.SASL_HANDSHAKE, mechanism=sasl.mechanism)
            if handshake.error_code == Code.ILLEGAL_SASL_STATE:
                raise bad_login(self._settings.alias, NO_LOGIN)
            if handshake.error_code:
                offered = ", ".join(handshake.mechanisms)
                raise ClusterRefused(
                    f"cluster {self._settings.alias} does not offer SASL {sasl.mechanism}",
                    hint=f"it offers {offered}",
                    code="sasl",
                    cluster=self._settings.alias,
                )
            self._authenticate(mechanism, sasl.mechanism)

    def _mechanism(self, sasl: SaslSettings) -> kafka_python.SaslMechanism:
        if sasl.kerberos is not None:
            return kerberos.Exchange(sasl.kerberos, self._host, self._settings.alias)
        token = login.token(sasl) if sasl.mechanism == "OAUTHBEARER" else None
        return kafka_python.sasl_mechanism(sasl, self._settings.protocol.value, token)

    def _expect(self, cluster_id: str, node: int) -> None:
        """Raise ClusterUnreachable if the address has moved to another cluster, or another of its brokers."""
        if self.offers(kafka_python.API_VERSIONS.request.API_KEY) < kafka_python.EXPECTED:
            return
        correlation = next(self._correlations)
        request = kafka_python.expectation(correlation, self._settings.client_id, cluster_id, node)
        self._in_flight.append(correlation)
        self._guard(lambda: self._sender.send([[request]]))
        answer = self._guard(lambda: self._receive(fresh_buffer, keep_correlation=True))
        if kafka_python.error_of_expectation(answer) == kafka_python.REBOOTSTRAP_REQUIRED:
            raise self._unreachable(
                f"it is not broker {node} of the cluster {cluster_id}, whose address this was"
            )

    def _authenticate(self, mechanism: kafka_python.SaslMechanism, name: str) -> None:
        while not mechanism.is_done():
            answer = self.call(kafka_python.SASL_AUTHENTICATE, auth_bytes=mechanism.auth_bytes())
            if answer.error_code:
                if self._settings.sasl is not None:
                    login.refused(self._settings.sasl)
                why = kerberos.UNTOLD if name == "GSSAPI" else ""
                raise bad_login(self._settings.alias, f"{name}: {answer.error_message}{why}")
            mechanism.receive(bytes(answer.auth_bytes))
            if answer.session_lifetime_ms:
                self._reauthenticate_at = time.monotonic() + answer.session_lifetime_ms / 1000 * 0.8

    def _let_out(self) -> None:
        """Wait until the kernel has taken everything sent, and read answers meanwhile.

        A broker reads nothing more from a connection until its answer has been taken, and an answer with an error for
        each record can be larger than the socket's buffers.
        """
        while not self._sender.taken(_LOOK_SECONDS):
            if _readable([self], 0.0):
                self._early.append(self._read(fresh_buffer))

    def _receive(
        self, allocate: Callable[[int], memoryview], *, keep_correlation: bool = False
    ) -> memoryview:
        self._let_out()
        if not self._early:
            return self._read(allocate, keep_correlation=keep_correlation)
        answer = self._early.popleft()
        if keep_correlation:
            return answer
        payload = allocate(len(answer) - 4)
        payload[:] = answer[4:]
        return payload

    def _read(self, allocate: Callable[[int], memoryview], *, keep_correlation: bool = True) -> memoryview:
        head = memoryview(bytearray(_HEAD.size))
        self._receiver.fill(head)
        size, correlation = _HEAD.unpack(head)
        if not self._in_flight or correlation != self._in_flight[0] or not 4 <= size <= _MAX_ANSWER:
            raise OSError(f"answer {correlation} of {size} bytes was not asked for")
        keep = 4 if keep_correlation else 0
        payload = allocate(size - 4 + keep)
        self._receiver.fill(payload[keep:])
        if keep:
            payload[:4] = head[4:]
        self._in_flight.popleft()
        return payload

    def _guard(self, action: Callable[[], _T]) -> _T:
        """Run `action`; turn a socket failure into our error and close: nothing in flight can be trusted any more."""
        try:
            return action()
        except OSError as error:
            self.close()
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> ClusterUnreachable:
        late = isinstance(error, TimeoutError | BlockingIOError)
        reason = "no answer in time" if late else (error.strerror or str(error))
        during = f" during {self._asked}" if self._asked else ""
        return ClusterUnreachable(
            f"connection to cluster {self._settings.alias} at {self._address} was lost{during}: {reason}",
            hint="the state is as it was; the next cycle tries again",
            cluster=self._settings.alias,
            address=self._address,
            reason=reason,
        )

    def _unreachable(self, reason: str) -> ClusterUnreachable:
        return unreachable(self._settings.alias, reason, self._address)


def _block_for(plain: socket.socket, timeout_ms: int) -> None:
    """Let the kernel wait, up to the time-out: one system call for a whole answer, instead of two for each part.

    (`socket.settimeout` makes the socket non-blocking and polls before every call.)  After the time-out the kernel
    answers EAGAIN, which Python raises as BlockingIOError.
    """
    plain.settimeout(None)
    patience = struct.pack("@ll", timeout_ms // 1000, timeout_ms % 1000 * 1000)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)


def answering(connections: Sequence[Connection], seconds: float) -> list[Connection]:
    """Return the connections that have an answer or part of one; wait up to `seconds` for the first."""
    return [item for item in connections if item.buffered] or _readable(connections, seconds)


def _readable(connections: Sequence[Connection], seconds: float) -> list[Connection]:
    with selectors.PollSelector() as selector:  # it takes one system call, epoll five
        for item in connections:
            selector.register(item, selectors.EVENT_READ, item)
        return [key.data for key, _ in selector.select(seconds)]


def fresh_buffer(size: int) -> memoryview:
    """Allocate memory for one answer that may be kept."""
    return memoryview(bytearray(size))
