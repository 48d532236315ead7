"""Name Kafka's error codes, map each to an error action by request, and make errors of them: the only such table.

A code answers two questions: has the request taken effect, and can asking again help?  An answer with a code is final
for its request: the broker does nothing more for it.  A lost answer is not final.  Therefore a lost answer to a
produce request needs a new fence, and a code never needs one for that reason.

| action      | meaning                                                                                     |
|-------------|---------------------------------------------------------------------------------------------|
| repeat      | ask the same again after a pause, and find the leader or coordinator again                  |
| resend      | give up the transaction, find the leader again, send again; `lane` finds the sequence       |
| split       | give up the transaction, send smaller batches; a batch of one record ends its range         |
| end-range   | final for this partition: name topic, partition and offset; the other partitions go on      |
| fence-again | the outcome is indeterminate: the lane stops; the driver fences, reads the committed state, |
|             | and resolves the ranges again                                                               |
| fenced      | another producer initialised our transactional id: progress tells what is committed         |
| stop        | final for the flow: a person must act                                                       |

Sources: org.apache.kafka.common.protocol.Errors; the answers of ReplicaManager, TransactionCoordinator and
KafkaApis in Kafka 3.9 and 4.3, as far as they were seen on real brokers (docs/chaos.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any

from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    FencedError,
    TerminalError,
    TransientError,
    TwinlogError,
)


class Code(IntEnum):
    """Error codes by their Kafka names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    FENCED_MEMBER_EPOCH = 110
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120


FENCED = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_ID_MAPPING})
"""Another producer initialised our transactional id after us."""

COORDINATOR_MOVED = frozenset({
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
})
"""Find the coordinator again and repeat the request."""

NOT_APPENDED = frozenset({Code.NOT_ENOUGH_REPLICAS})
"""A produce request was refused before its batch was written, and may be sent again with the same sequence.

Partition.appendRecordsToLeader first compares the replicas in sync with min.insync.replicas; a failure after the
append is NOT_ENOUGH_REPLICAS_AFTER_APPEND.  Kafka 4's verification of a transaction, which answers a Produce below v11
with the same code, also comes before the append.
"""

LEADER_MOVED = frozenset({
    Code.LEADER_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.REPLICA_NOT_AVAILABLE,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.KAFKA_STORAGE_ERROR,
    Code.OFFSET_NOT_AVAILABLE,
})
"""Read the metadata again and repeat a fetch."""

TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})
"""As the target would store it, the batch is larger than max.message.bytes or than a segment (UnifiedLog.append)."""

REFUSED_RECORDS = TOO_LARGE | frozenset({
    Code.INVALID_TIMESTAMP,
    Code.INVALID_RECORD,
    Code.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    Code.UNSUPPORTED_COMPRESSION_TYPE,
})
"""The target will never accept this batch: one of its records is at fault."""

OTHER_INCARNATION = frozenset({Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID})
"""A fetch by topic id failed: the topic was deleted or recreated, or the broker does not know it yet."""

UNKNOWN_TOPIC = "unknown-topic-or-partition"
"""Code of the error for a topic or partition that does not exist."""

AUTHORIZATION = frozenset({
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})


def code_name(code: int) -> str:
    """Return `51 CONCURRENT_TRANSACTIONS`, or only the number for a code that is not named here."""
    try:
        return f"{code} {Code(code).name}"
    except ValueError:
        return str(code)


def error_for(code: int, doing: str, cluster: str) -> TwinlogError:
    """Turn an unexpected code into an error; its kind decides whether a retry makes sense."""
    message = f"cluster {cluster} answered {code_name(code)} to {doing}"
    data: dict[str, Any] = {"cluster": cluster, "kafka_code": int(code)}
    if code in FENCED:
        return FencedError(
            message, hint="another twinlog runs this flow; this one wrote nothing more", **data
        )
    if code in AUTHORIZATION:
        return ClusterRefused(message, hint="run `twinlog check` to see which ACL is missing", **data)
    if code == Code.UNSUPPORTED_VERSION:
        return ClusterRefused(
            message,
            hint="a source may be Kafka 2.0 or later, a target 2.8 or later; both 4.2 with share groups",
            **data,
        )
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return TerminalError(message, code=UNKNOWN_TOPIC, **data)
    if code == Code.INVALID_TRANSACTION_TIMEOUT:
        hint = "lower twinlog.transaction.timeout.ms, or raise the brokers' transaction.max.timeout.ms"
        return TerminalError(message, hint=hint, code="invalid-transaction-timeout", **data)
    return TransientError(message, hint="the state is as it was; the next cycle tries again", **data)


def unreachable(alias: str, reason: str, address: str = "", **data: Any) -> ClusterUnreachable:
    """Make the error for a cluster of which no broker answers, or not the one at `address`."""
    return ClusterUnreachable(
        f"cluster {alias} cannot be reached{_at(address)}: {reason}",
        hint=f"check {alias}.bootstrap.servers, the listener's protocol, the network, and that the broker runs",
        **{"cluster": alias, **({"address": address} if address else {}), **data},
    )


def tls_failed(alias: str, reason: str, address: str) -> ClusterRefused:
    """Make the error for a failed TLS handshake: a matter of certificates or of the port, not of waiting."""
    return ClusterRefused(
        f"the TLS handshake with cluster {alias}{_at(address)} failed: {reason}",
        hint=f"check {alias}.security.protocol, {alias}.ssl.truststore.* (the chain's root), the broker's host name,"
        " and the client certificate",
        code="tls",
        cluster=alias,
    )


NO_LOGIN = "not valid in current SASL state"
"""Words by which librdkafka gives a listener without SASL away: it answers a login so (ILLEGAL_SASL_STATE)."""


def bad_login(alias: str, reason: str) -> ClusterRefused:
    """Make the error for a cluster that answered and did not accept the login, or takes none at this listener."""
    if NO_LOGIN in reason:
        return ClusterRefused(
            f"cluster {alias} takes no login at this listener, which has no SASL",
            hint=f"set {alias}.security.protocol to PLAINTEXT or SSL, or {alias}.bootstrap.servers to a SASL listener",
            code="sasl",
            cluster=alias,
        )
    return ClusterRefused(
        f"cluster {alias} does not accept the login: {reason}",
        hint=f"check {alias}.sasl.mechanism, {alias}.sasl.jaas.config and the user's credentials",
        code="authentication",
        cluster=alias,
    )


def _at(address: str) -> str:
    return f" at {address}" if address else ""


class Request(StrEnum):
    """Name the request that was answered; look-up stands for Metadata, FindCoordinator and ListOffsets."""

    FETCH = "fetch"
    PRODUCE = "produce"
    ADD_PARTITIONS = "add-partitions"
    END_TXN = "end-txn"
    INIT_PRODUCER = "init-producer"
    LOOK_UP = "look-up"


class ErrorAction(StrEnum):
    """Name the reaction to a code (see the module docstring)."""

    REPEAT = "repeat"
    RESEND = "resend"
    SPLIT = "split"
    END_RANGE = "end-range"
    FENCE_AGAIN = "fence-again"
    FENCED = "fenced"
    STOP = "stop"


_BUSY = COORDINATOR_MOVED | {
    Code.CONCURRENT_TRANSACTIONS,
    Code.REQUEST_TIMED_OUT,
    Code.NETWORK_EXCEPTION,
}
"""The coordinator is moving, is loading, or still writes the markers of our last transaction."""

_MAY_BE_WRITTEN = (
    LEADER_MOVED
    | {
        Code.UNKNOWN_TOPIC_OR_PARTITION,  # a broker that has not heard of it yet; AddPartitions tells a deleted topic
        Code.REQUEST_TIMED_OUT,
        Code.NETWORK_EXCEPTION,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""The batch may or may not be in the log (a leader appends, then waits for its followers); no more happens to it."""

_REFUSED_TOPIC = frozenset({
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.INVALID_TOPIC_EXCEPTION,
    Code.POLICY_VIOLATION,
    *OTHER_INCARNATION,
})

_NOT_ALLOWED = frozenset({
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.UNSUPPORTED_VERSION,
    Code.INVALID_TRANSACTION_TIMEOUT,
})


def _rows(*rows: tuple[frozenset[Code], ErrorAction]) -> Mapping[int, ErrorAction]:
    return {code: error_action for codes, error_action in rows for code in codes}


_ENDS_A_WRITER = (FENCED, ErrorAction.FENCED), (_NOT_ALLOWED, ErrorAction.STOP)

TABLE: Mapping[Request, Mapping[int, ErrorAction]] = {
    Request.FETCH: _rows(
        (
            LEADER_MOVED
            | OTHER_INCARNATION  # likewise: Metadata tells a recreated topic from a broker that lags
            | {
                Code.FETCH_SESSION_ID_NOT_FOUND,
                Code.INVALID_FETCH_SESSION_EPOCH,
                Code.FETCH_SESSION_TOPIC_ID_ERROR,
                Code.UNKNOWN_TOPIC_OR_PARTITION,  # Metadata tells a deleted topic from a broker that lags
                Code.UNKNOWN_SERVER_ERROR,
                Code.REQUEST_TIMED_OUT,
                Code.NETWORK_EXCEPTION,
            },
            ErrorAction.REPEAT,
        ),
        (frozenset({Code.OFFSET_OUT_OF_RANGE, Code.CORRUPT_MESSAGE}), ErrorAction.END_RANGE),
        ((_REFUSED_TOPIC - OTHER_INCARNATION) | _NOT_ALLOWED, ErrorAction.END_RANGE),
    ),
    Request.PRODUCE: _rows(
        (_MAY_BE_WRITTEN | NOT_APPENDED, ErrorAction.RESEND),
        (TOO_LARGE, ErrorAction.SPLIT),
        ((REFUSED_RECORDS - TOO_LARGE) | _REFUSED_TOPIC | {Code.CORRUPT_MESSAGE}, ErrorAction.END_RANGE),
        *_ENDS_A_WRITER,
    ),
    Request.ADD_PARTITIONS: _rows(
        (_BUSY, ErrorAction.REPEAT),
        (
            frozenset({Code.LEADER_NOT_AVAILABLE}),
            ErrorAction.RESEND,
        ),  # twinlog's own answer (lane/open_transactions.py)
        # An unknown topic is asked for again first: the coordinator may lag (lane/transaction.py).
        (_REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}, ErrorAction.END_RANGE),
        *_ENDS_A_WRITER,
    ),
    Request.END_TXN: _rows(
        # A coordinator that is just asked to fence us also fails to end the transaction (IllegalStateException).
        (_BUSY | {Code.UNKNOWN_SERVER_ERROR}, ErrorAction.REPEAT),
        *_ENDS_A_WRITER,
    ),
    Request.INIT_PRODUCER: _rows(
        (_BUSY, ErrorAction.REPEAT),
        *_ENDS_A_WRITER,
    ),
    Request.LOOK_UP: _rows(
        (
            LEADER_MOVED | COORDINATOR_MOVED | {Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION},
            ErrorAction.REPEAT,
        ),
        (_REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}, ErrorAction.END_RANGE),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
}
"""Codes missing here are handled by `DEFAULT`."""

DEFAULT: Mapping[Request, ErrorAction] = {
    **dict.fromkeys(Request, ErrorAction.FENCE_AGAIN),
    Request.FETCH: ErrorAction.END_RANGE,
}
"""The action for an unforeseen code: a reader ends its range with an error, a writer's outcome is indeterminate."""


def error_action(request: Request, code: int) -> ErrorAction:
    """Return the action for `code` (not 0) as an answer to `request`.

    Raises KeyError for 0, which is no error.
    """
    if code == 0:
        raise KeyError("0 is no error")
    return TABLE[request].get(code, DEFAULT[request])


def repeats(request: Request, code: int) -> bool:
    """Say whether `code` is an error after which the same request is repeated."""
    return code != 0 and error_action(request, code) is ErrorAction.REPEAT
