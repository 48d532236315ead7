"""Wrap kafka-python: its protocol schemas and its SASL mechanisms.  No other module knows it.

kafka-python's internals are not a stable interface, so its version is pinned, and tests/protocol/messages.txt holds
what twinlog needs of them.  All of it passes through `encode`, `decode`, `old_message` and `sasl_mechanism`.  Brokers
from 2.8 to 4.4 support the versions chosen here; if a broker offers less, `Connection.version_of` picks the highest
version that both sides know, and `require` refuses a broker that is too old to read from, or to write to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Protocol

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_message import ApiMessage
from kafka.record.legacy_records import LegacyRecordBatch

from twinlog import __version__
from twinlog.config.file.providers import reveal
from twinlog.config.security.connection import SaslSettings
from twinlog.errors import ClusterRefused, ConfigError, FormatError
from twinlog.protocol import wire

MESSAGES = "twinlog.protocol.messages"
"""The package with the schemas that kafka-python lacks."""


@dataclass(frozen=True, slots=True)
class Api:
    """A request that kafka-python encodes: its classes, and the highest version that twinlog speaks."""

    request: Any
    response: Any
    version: int

    @property
    def name(self) -> str:
        """The request's name in Kafka's protocol, such as `DescribeLogDirs`."""
        return str(self.request.__name__).removesuffix("Request")


def _api(module: ModuleType, name: str, version: int) -> Api:
    """Find both classes of a request of kafka-python's by the request's name in Kafka's protocol."""
    return Api(getattr(module, f"{name}Request"), getattr(module, f"{name}Response"), version)


class ConsumerGroupDescribeRequest(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Ask about groups of the protocol of KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Tell their members, each with its partitions."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Ask where share groups start in each partition (KIP-932)."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Tell their start offsets, -1 for a partition without one, and from version 1 on their lags (KIP-1226)."""


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Set the start offsets of a share group without members."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """Tell for each partition whether its start offset was set."""


API_VERSIONS = _api(metadata, "ApiVersions", 0)
METADATA = _api(metadata, "Metadata", 12)
DESCRIPTION = _api(metadata, "Metadata", 10)
"""The last version that tells what this user may do on the cluster, beside what it may do on topics."""

FIND_COORDINATOR = _api(metadata, "FindCoordinator", 3)
FIND_COORDINATORS = _api(metadata, "FindCoordinator", 4)
DESCRIBE_LOG_DIRS = _api(admin, "DescribeLogDirs", 4)
CREATE_TOPICS = _api(admin, "CreateTopics", 5)
CREATE_PARTITIONS = _api(admin, "CreatePartitions", 2)
DELETE_TOPICS = _api(admin, "DeleteTopics", 4)
"""The versions of these three that brokers hold back by a throttle; later ones they refuse over a quota (KIP-599)."""

DELETE_RECORDS = _api(admin, "DeleteRecords", 2)
DESCRIBE_CONFIGS = _api(admin, "DescribeConfigs", 2)
ALTER_CONFIGS = _api(admin, "IncrementalAlterConfigs", 1)
LIST_GROUPS = _api(admin, "ListGroups", 5)
OFFSET_FETCH = _api(consumer, "OffsetFetch", 8)
JOIN_GROUP = _api(consumer, "JoinGroup", 3)
"""The last version in which one request joins."""

SYNC_GROUP = _api(consumer, "SyncGroup", 2)
LEAVE_GROUP = _api(consumer, "LeaveGroup", 2)
OFFSET_COMMIT = _api(consumer, "OffsetCommit", 8)
DESCRIBE_GROUPS = _api(admin, "DescribeGroups", 5)
DESCRIBE_CONSUMER_GROUPS = Api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, 0)
DESCRIBE_SHARE_OFFSETS = Api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, 1)
ALTER_SHARE_OFFSETS = Api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, 0)
DELETE_GROUPS = _api(admin, "DeleteGroups", 2)
LIST_OFFSETS = _api(consumer, "ListOffsets", 5)

FETCH = _api(consumer, "Fetch", 11)
"""Used to look at a single batch; batches to copy are fetched by `twinlog.protocol.wire`."""

EPOCH_ENDS = _api(consumer, "OffsetForLeaderEpoch", 4)
INIT_PRODUCER_ID = _api(producer, "InitProducerId", 4)
ADD_PARTITIONS = _api(producer, "AddPartitionsToTxn", 2)
DESCRIBE_PRODUCERS = _api(admin, "DescribeProducers", 0)
LIST_TRANSACTIONS = _api(admin, "ListTransactions", 0)
DESCRIBE_TRANSACTIONS = _api(admin, "DescribeTransactions", 0)
END_TXN = _api(producer, "EndTxn", 2)
SASL_HANDSHAKE = _api(sasl, "SaslHandshake", 1)
SASL_AUTHENTICATE = _api(sasl, "SaslAuthenticate", 1)
DESCRIBE_ACLS = _api(admin, "DescribeAcls", 3)
CREATE_ACLS = _api(admin, "CreateAcls", 3)
DELETE_ACLS = _api(admin, "DeleteAcls", 3)
DESCRIBE_CLIENT_QUOTAS = _api(admin, "DescribeClientQuotas", 1)
ALTER_CLIENT_QUOTAS = _api(admin, "AlterClientQuotas", 1)


def assigned(block: bytes) -> list[tuple[str, int]]:
    """Decode what a member of a classic consumer group was given, as topics and partitions; empty means nothing.

    Raises FormatError for what an assignor of somebody's own has written.
    """
    try:
        found = consumer.ConsumerProtocolAssignment.decode(block).assigned_partitions if block else []
    except (struct.error, ValueError) as error:
        raise FormatError(f"a member's assignment is not of Kafka's consumer protocol: {error}") from None
    return [(it.topic, partition) for it in found for partition in it.partitions]


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """Encode what a member of a classic consumer group is given: partitions by topic."""
    topic = consumer.ConsumerProtocolAssignment.TopicPartition
    its = [topic(topic=name, partitions=list(numbers)) for name, numbers in partitions.items()]
    return bytes(consumer.ConsumerProtocolAssignment(version=0, assigned_partitions=its).encode())


def subscription(topics: Sequence[str]) -> bytes:
    """Encode what a member of a classic consumer group wants to read."""
    return bytes(consumer.ConsumerProtocolSubscription(version=0, topics=list(topics)).encode())


def encode(api: Api, version: int, correlation: int, client_id: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a request with its size and header."""
    request = api.request(version=version, **fields)
    request.with_header(correlation_id=correlation, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))


def decode(api: Api, version: int, payload: memoryview) -> Any:
    """Decode an answer including its response header; fields become attributes in snake_case."""
    return api.response.decode(payload, version=version, header=True)


EXPECTED = 5
"""The version of ApiVersions that says which cluster and node the client expects (KIP-1242); kafka-python ends at 4."""

REBOOTSTRAP_REQUIRED = 129


def expectation(correlation: int, client_id: str, cluster_id: str, node: int) -> bytes:
    """Encode ApiVersions in version EXPECTED, with size and header; another cluster's broker answers with an error."""
    client = client_id.encode()
    texts = b"".join(bytes([len(text) + 1]) + text.encode() for text in ("twinlog", __version__, cluster_id))
    head = struct.pack(">hhih", API_VERSIONS.request.API_KEY, EXPECTED, correlation, len(client)) + client
    request = head + b"\0" + texts + struct.pack(">i", node) + b"\0"
    return struct.pack(">i", len(request)) + request


def error_of_expectation(payload: memoryview) -> int:
    """Return the error code of the answer, including its response header."""
    return int(struct.unpack_from(">h", payload, 4)[0])


class OldMessage(LegacyRecordBatch):  # type: ignore[misc]
    """Read one message of format v0 or v1 through kafka-python; iteration yields its record, if not compressed."""

    __slots__ = ()

    @property
    def append_time(self) -> int | None:
        """Return the broker's append time (ms) if consumers see that as the timestamp, else None."""
        return self._timestamp if self.timestamp_type == self.LOG_APPEND_TIME else None


OLD_MESSAGE_ERRORS = (KafkaError, AssertionError, IndexError, struct.error)
"""The errors that kafka-python raises for a message that does not follow its format."""


def old_message(message: memoryview, magic: int) -> OldMessage:
    """Read one message, including its size and offset."""
    return OldMessage(message, magic)


class SaslMechanism(Protocol):
    """A SASL login as a state machine: send `auth_bytes()`, pass the answer to `receive`, until `is_done()`."""

    def auth_bytes(self) -> bytes:
        """Return the bytes to send next."""

    def receive(self, auth_bytes: bytes) -> Any:
        """Take the broker's answer."""

    def is_done(self) -> bool:
        """Say whether the exchange is over."""


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> Mapping[str, str]:
        return self._extensions


def sasl_mechanism(sasl: SaslSettings, protocol: str, token: str | None) -> SaslMechanism:
    """Start a login.  `token` is the bearer token for OAUTHBEARER.

    Raises ConfigError for a mechanism that twinlog does not support, and for a missing token, user name or password:
    kafka-python itself would notice a missing user name or password only as a refused login.
    """
    if sasl.mechanism == "OAUTHBEARER":
        if token is None:
            raise ConfigError("OAUTHBEARER login without a token", code="sasl")
        provider = _Token(token, dict(sasl.extensions))
        return get_sasl_mechanism("OAUTHBEARER")(sasl_oauth_token_provider=provider)  # type: ignore[no-any-return]
    if sasl.mechanism not in {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}:
        raise ConfigError(
            f"SASL mechanism {sasl.mechanism} is not supported",
            hint="use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
            code="sasl",
        )
    if not sasl.username or sasl.password is None:
        raise ConfigError(f"SASL {sasl.mechanism} needs a user name and a password", code="sasl")
    return get_sasl_mechanism(sasl.mechanism)(  # type: ignore[no-any-return]
        sasl_plain_username=_scram_name(sasl),
        sasl_plain_password=reveal(sasl.password),
        sasl_mechanism=sasl.mechanism,
        security_protocol=protocol,
    )


def _scram_name(sasl: SaslSettings) -> str:
    """Escape a SCRAM user name (RFC 5802, saslname); kafka-python leaves that to its caller."""
    if not sasl.mechanism.startswith("SCRAM"):
        return sasl.username
    return sasl.username.replace("=", "=3D").replace(",", "=2C")


NOT_OFFERED = "not-offered"
"""Code of the error for a request that a cluster does not have, or hides."""

OLDEST_SOURCE = "2.0"

OLDEST_TARGET = "2.8"
"""The first whose Metadata has topic ids (v10, KIP-516), which tell a recreated copy from the one that was written."""

Versions = Mapping[int, tuple[str, int, int]]


def _versions(*known: tuple[int, Api]) -> Versions:
    return {api.request.API_KEY: (api.name, lowest, api.version) for lowest, api in known}


NEEDED: Final[Versions] = {
    wire.FETCH: ("Fetch", wire.OLDEST_FETCH_VERSION, wire.FETCH_VERSION),
    **_versions((2, LIST_OFFSETS), (5, METADATA), (1, FIND_COORDINATORS)),
}
"""By api key: name, and the lowest and highest version that twinlog speaks to a source; 2.0 to 4.3 offer them."""

NEEDED_OF_TARGET: Final[Versions] = {
    wire.PRODUCE: ("Produce", wire.PRODUCE_VERSION, wire.PRODUCE_VERSION),
    **_versions(
        (10, METADATA), (3, FIND_COORDINATORS), (3, INIT_PRODUCER_ID), (2, ADD_PARTITIONS), (2, END_TXN)
    ),
}
"""The same for a target; 2.8 to 4.3 offer them."""

_ALWAYS = frozenset({wire.FETCH, LIST_OFFSETS.request.API_KEY, METADATA.request.API_KEY})
"""Requests that both sides of a flow need; another one is missed when it is to be sent."""


def not_offered(name: str, alias: str, address: str) -> ClusterRefused:
    """Make the error for a request that a broker does not offer: it would only end the connection."""
    return ClusterRefused(
        f"the broker of cluster {alias} at {address} does not offer {name}",
        hint="docs/refused-requests.md says what needs it",
        code=NOT_OFFERED,
        cluster=alias,
        address=address,
        request=name,
    )


def require(
    offered: Mapping[int, tuple[int, int]], alias: str, address: str, *, target: bool = False
) -> None:
    """Check the lowest and highest version of each request that a broker offers, by api key (its ApiVersions answer).

    Checks what a source needs, or what only a `target` does.  A request that not every cluster needs may be missing.
    Raises ClusterRefused (code `broker-version`), which names the broker and the first request that it cannot take.
    """
    needed, hint = NEEDED, f"Kafka {OLDEST_SOURCE} is the oldest to copy from"
    if target:
        needed = NEEDED_OF_TARGET
        hint = (
            f"Kafka {OLDEST_TARGET} is the oldest to copy to; a source may be older, from {OLDEST_SOURCE} on"
        )
    for key, (name, low, high) in needed.items():
        if key not in offered:
            if key not in _ALWAYS:
                continue
            has = f"no {name}"
        elif offered[key][1] < low or offered[key][0] > high:
            has = "{} v{} to v{}".format(name, *offered[key])
        else:
            continue
        wanted = f"v{low}" if low == high else f"v{low} to v{high}"
        raise ClusterRefused(
            f"the broker of cluster {alias} at {address} offers {has}; twinlog speaks {wanted}",
            hint=hint,
            code="broker-version",
            cluster=alias,
            address=address,
        )
