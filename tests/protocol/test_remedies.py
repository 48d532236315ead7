"""Every error code of every request does what the table says, and the page says what the table says."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeTarget
from test_copy_lane import agree, copy, source_of
from test_cutter import Log

from batches import Rec, encode
from twinlog.errors import TerminalError
from twinlog.protocol.errors import DEFAULT, TABLE, Code, ErrorAction, Request, error_action, error_for
from twinlog.protocol.retry import until

RECORDS = [Rec(b"%d" % n) for n in range(9)]
LOG = Log((bytes(encode(RECORDS)),), tuple(enumerate(RECORDS)), (), 9)
STATE = {
    ErrorAction.REPEAT: "done",
    ErrorAction.RESEND: "done",
    ErrorAction.SPLIT: "done",
    ErrorAction.END_RANGE: "failed",
    ErrorAction.FENCE_AGAIN: "fence-again",
    ErrorAction.FENCED: "fenced",
    ErrorAction.STOP: "refused",
}
ASKED = {Request.PRODUCE: "produce", Request.ADD_PARTITIONS: "add", Request.END_TXN: "end_txn"}
LAGS = Request.ADD_PARTITIONS, Code.UNKNOWN_TOPIC_OR_PARTITION
"""It is asked again for a moment, and ends the range only then."""
CODES = [code for code in Code if code]


@pytest.mark.parametrize("request_", ASKED)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_lane_does_what_the_table_says(code: Code, request_: Request) -> None:
    """One such answer, then a target that is well: the lane's state is the remedy's."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.faults[ASKED[request_]] = [code]
    report = copy(source_of([LOG]), target, {0: 0}, {0: 9})
    what = error_action(request_, code)
    if (request_, code) == LAGS:
        what = ErrorAction.REPEAT
    assert report.state == STATE[what]
    assert what is not ErrorAction.END_RANGE or report.ranges[0].error.startswith("t-0")
    if report.state == "done":
        agree(target, 0, LOG)
    else:
        assert [] == target.committed(("A.t", 0))


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_fetch_does_what_the_table_says(code: Code) -> None:
    """It is repeated, or its range ends by name; a neighbour is copied whole either way."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of([LOG, LOG])
    source.errors["t", 0] = [code]
    report = copy(source, target, {0: 0, 1: 0}, {0: 9, 1: 9})
    assert report.state == STATE[error_action(Request.FETCH, code)]
    agree(target, 1, LOG)
    if report.state == "done":
        agree(target, 0, LOG)
    else:
        assert report.ranges[0].error.startswith("t-0")


def test_a_code_nobody_knows_is_a_doubt_or_ends_a_range() -> None:
    """A writer is in doubt, a reader ends by name; 0 is no error at all."""
    assert {error_action(request, 9_999) for request in Request} == {
        ErrorAction.END_RANGE,
        ErrorAction.FENCE_AGAIN,
    }
    with pytest.raises(KeyError):
        error_action(Request.FETCH, 0)


def test_a_transaction_that_may_not_last_so_long_is_a_matter_of_two_settings() -> None:
    """The error names both, and no retry changes it."""
    error = error_for(Code.INVALID_TRANSACTION_TIMEOUT, "InitProducerId", "B")
    assert (TerminalError, "invalid-transaction-timeout") == (type(error), error.code)
    assert "twinlog.transaction.timeout.ms" in error.hint
    assert "transaction.max.timeout.ms" in error.hint


def test_the_page_has_the_table(repository: Path) -> None:
    """docs/chaos.md lists each code with its remedies, in the module's order."""
    page = (repository / "docs" / "chaos.md").read_text()
    codes = sorted({code for rows in TABLE.values() for code in rows})
    for code in codes:
        cells = [TABLE[request].get(code) for request in Request]
        row = " | ".join(cell.value if cell else "" for cell in cells)
        assert f"| {int(code)} {code.name} | {row} |" in page
    rest = " | ".join(DEFAULT[request].value for request in Request)
    assert f"| any other | {rest} |" in page


def test_asking_again_ends() -> None:
    """After its time, with what the caller has to say about it."""
    asked = []
    with pytest.raises(TimeoutError, match="enough"):
        until(lambda: asked.append(1), lambda: TimeoutError("enough"), seconds=0.1, first_seconds=0.001)
    assert len(asked) > 2
