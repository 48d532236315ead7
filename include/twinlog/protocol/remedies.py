"""Map each error code of each request to an error action: the only such table, and the errors made from it.

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
from enum import StrEnum

from twinlog.protocol.error_codes import (
    COORDINATOR_MOVED,
    FENCED,
    LEADER_MOVED,
    NOT_APPENDED,
    OTHER_INCARNATION,
    REFUSED_RECORDS,
    TOO_LARGE,
    Code,
)


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


def _rows(*rows: tuple[frozenset[Code], ErrorAction]) -> Mapping[Code, ErrorAction]:
    return {code: error_action for codes, error_action in rows for code in codes}


TABLE: Mapping[Request, Mapping[Code, ErrorAction]] = {
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
        (REFUSED_RECORDS - TOO_LARGE, ErrorAction.END_RANGE),
        (_REFUSED_TOPIC, ErrorAction.END_RANGE),
        (frozenset({Code.CORRUPT_MESSAGE}), ErrorAction.END_RANGE),
        (FENCED, ErrorAction.FENCED),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
    Request.ADD_PARTITIONS: _rows(
        (_BUSY, ErrorAction.REPEAT),
        (
            frozenset({Code.LEADER_NOT_AVAILABLE}),
            ErrorAction.RESEND,
        ),  # twinlog's own answer (lane/open_transactions.py)
        (_REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}, ErrorAction.END_RANGE),
        (FENCED, ErrorAction.FENCED),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
    Request.END_TXN: _rows(
        # A coordinator that is just asked to fence us also fails to end the transaction (IllegalStateException).
        (_BUSY | {Code.UNKNOWN_SERVER_ERROR}, ErrorAction.REPEAT),
        (FENCED, ErrorAction.FENCED),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
    Request.INIT_PRODUCER: _rows(
        (_BUSY, ErrorAction.REPEAT),
        (FENCED, ErrorAction.FENCED),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
    Request.LOOK_UP: _rows(
        (LEADER_MOVED | COORDINATOR_MOVED, ErrorAction.REPEAT),
        (frozenset({Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION}), ErrorAction.REPEAT),
        (_REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}, ErrorAction.END_RANGE),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
}
"""Codes missing here are handled by `DEFAULT`."""

DEFAULT: Mapping[Request, ErrorAction] = {
    Request.FETCH: ErrorAction.END_RANGE,
    Request.PRODUCE: ErrorAction.FENCE_AGAIN,
    Request.ADD_PARTITIONS: ErrorAction.FENCE_AGAIN,
    Request.END_TXN: ErrorAction.FENCE_AGAIN,
    Request.INIT_PRODUCER: ErrorAction.FENCE_AGAIN,
    Request.LOOK_UP: ErrorAction.FENCE_AGAIN,
}
"""The action for an unforeseen code: a reader ends its range with an error, a writer's outcome is indeterminate."""


def error_action(request: Request, code: int) -> ErrorAction:
    """Return the action for `code` (not 0) as an answer to `request`.

    Raises KeyError for 0, which is no error.
    """
    if code == 0:
        raise KeyError("0 is no error")
    try:
        return TABLE[request].get(Code(code), DEFAULT[request])
    except ValueError:  # a code that is not named here
        return DEFAULT[request]


def repeats(request: Request, code: int) -> bool:
    """Say whether `code` is an error after which the same request is repeated."""
    return code != 0 and error_action(request, code) is ErrorAction.REPEAT
