"""What each error code of each request lets us do: the one table, and the errors made from it.

A code says two things: whether the request has taken effect, and whether asking again can help.  Every answer
with a code is final for its request (a broker does nothing more for it), an answer that was lost is not: that is
why a lost answer to a produce request needs a new fence, and a code never does for that reason.

| remedy      | meaning                                                                                      |
|-------------|----------------------------------------------------------------------------------------------|
| repeat      | ask the same again after a pause, finding leader or coordinator anew                           |
| resend      | give up the transaction, find the leader anew, send again; `lane` finds the sequence           |
| split       | give up the transaction, send smaller batches; a batch of one record ends its range            |
| end-range   | terminal for this partition: name topic, partition and offset; its neighbours go on            |
| fence-again | a doubt: the lane stops, the driver fences, reads what is committed, and settles anew          |
| fenced      | somebody initialised our transactional id: what is committed is what progress says             |
| stop        | terminal for the flow: a person must act                                                       |

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
    """What was asked; look-up is Metadata, FindCoordinator and ListOffsets."""

    FETCH = "fetch"
    PRODUCE = "produce"
    ADD_PARTITIONS = "add-partitions"
    END_TXN = "end-txn"
    INIT_PRODUCER = "init-producer"
    LOOK_UP = "look-up"


class ErrorAction(StrEnum):
    """What to do about a code (module docstring)."""

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
"""A coordinator that moves, loads, or is still writing the markers of our last transaction."""

_MAY_BE_WRITTEN = (
    LEADER_MOVED
    | {
        Code.UNKNOWN_TOPIC_OR_PARTITION,  # a broker that has not heard of it yet; AddPartitions tells a deleted topic
        Code.REQUEST_TIMED_OUT,
        Code.NETWORK_EXCEPTION,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""The batch may be in the log or not (a leader appends before it waits for its followers), and nothing more happens."""

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
            | OTHER_INCARNATION  # the same: Metadata tells a topic made anew from a broker that is behind
            | {
                Code.FETCH_SESSION_ID_NOT_FOUND,
                Code.INVALID_FETCH_SESSION_EPOCH,
                Code.FETCH_SESSION_TOPIC_ID_ERROR,
                Code.UNKNOWN_TOPIC_OR_PARTITION,  # Metadata tells a deleted topic from a broker that is behind
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
        ),  # our own answer (lane/open_transactions.py)
        (_REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}, ErrorAction.END_RANGE),
        (FENCED, ErrorAction.FENCED),
        (_NOT_ALLOWED, ErrorAction.STOP),
    ),
    Request.END_TXN: _rows(
        # A coordinator that is just being asked to fence us fails to end the transaction, too (IllegalStateException).
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
"""Codes that are not here are answered by `DEFAULT`."""

DEFAULT: Mapping[Request, ErrorAction] = {
    Request.FETCH: ErrorAction.END_RANGE,
    Request.PRODUCE: ErrorAction.FENCE_AGAIN,
    Request.ADD_PARTITIONS: ErrorAction.FENCE_AGAIN,
    Request.END_TXN: ErrorAction.FENCE_AGAIN,
    Request.INIT_PRODUCER: ErrorAction.FENCE_AGAIN,
    Request.LOOK_UP: ErrorAction.FENCE_AGAIN,
}
"""What an unforeseen code does: a reader ends its range by name, a writer is in doubt."""


def error_action(request: Request, code: int) -> ErrorAction:
    """Return what to do about `code` (not 0) as an answer to `request`.

    Raises KeyError for 0: there is nothing to remedy.
    """
    if code == 0:
        raise KeyError("0 is no error")
    try:
        return TABLE[request].get(Code(code), DEFAULT[request])
    except ValueError:  # a code that is not named here
        return DEFAULT[request]


def repeats(request: Request, code: int) -> bool:
    """Whether `code` is an error after which the same question is asked again."""
    return code != 0 and error_action(request, code) is ErrorAction.REPEAT
