"""The target has committed the promotion, and its answer is lost on the way: the report says what the ledger says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.network import END_TXN
from test_failover import Pair, numbered, numbers_in, steps_of
from wired import Wired

from lab import delete_topic, produce
from twinlog.copying.ownership import Ownership
from twinlog.formats.ledger.records import FlowPhase
from twinlog.judge.check import Mode
from twinlog.lane.copy.state_records import StateRecord

pytestmark = [pytest.mark.chaos, pytest.mark.integration]


@pytest.mark.parametrize("times", [1, 1000], ids=["once", "until_the_next_fence"])
def test_a_promotion_whose_answer_is_lost_is_one(
    times: int, wired: tuple[Wired, Wired], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the write nor a restart of it may make a failure of it, or a second promotion."""
    source, target = wired
    pair = Pair(tmp_path, source.cluster, SimpleNamespace(bootstrap_servers=target.address))
    produce(source.cluster, "orders", numbered(0, 20))
    pair.cycle()
    pair.audit()
    wrote, faults = Ownership.write, target.proxy.faults
    promoting = f'"{FlowPhase.PROMOTED.value}"'.encode()
    lost: list[int] = []

    def write(owned: Ownership, records: list[StateRecord]) -> Any:
        if lost or not any(b'"flow-state"' in it.key and promoting in (it.value or b"") for it in records):
            return wrote(owned, records)
        before = faults.lost_answers[END_TXN]
        faults.lose_answers_of[END_TXN] = times
        try:
            return wrote(owned, records)
        finally:
            faults.calm()
            lost.append(faults.lost_answers[END_TXN] - before)

    monkeypatch.setattr(Ownership, "write", write)
    report = pair.fail_over(Mode.PLANNED)
    delete_topic(source.cluster, "orders")
    assert lost[0] >= min(times, 2)
    assert "promoted" == report.state.value, steps_of(report)
    code, status = pair.command("recovery", "status")
    assert (0, "promoted") == (code, status["state"])
    assert list(range(20)) == numbers_in(target.cluster, pair.remote)
