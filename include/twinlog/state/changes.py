"""Change a flow's state in its ledger, decided by what is in it at that moment: one writer at a time.

Two who change it at once, such as a pause beside a promotion, or two acceptances, decide one after the other: the
second one reads what the first one wrote (lane/fence/beside.py). A driver behind the flow's fence writes through its
control lane instead (copying/ownership.py), and excludes those here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TransientError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.state.ledger import Ledger, latest_or_empty, read_ledger, rows_of

TRIES = 8


@dataclass(frozen=True, slots=True)
class Entries:
    """Records to write into a ledger, each in place of the one with its key, and records to delete from it."""

    written: Sequence[LedgerEntry] = ()
    forgotten: Sequence[LedgerEntry] = ()


def change(flow: FlowSettings, cluster: Cluster, decide: Callable[[Ledger], Entries]) -> bool:
    """Change the flow's ledger, as `decide` says by what is in it; return whether anything was written.

    `decide` is asked without a turn first, for there is rarely anything to do; then behind it, and once more if
    somebody else wrote meanwhile, or if the answer was lost and the records are not there.  All is written or nothing.
    Raises what `decide` raises, TransientError if others keep coming between, and refusals of the cluster.
    """

    def wanted() -> list[InternalRecord]:
        decided = decide(read_ledger(flow, cluster))
        return rows_of(flow, cluster, decided.written, decided.forgotten, clock.now_ms())

    if not wanted():
        return False
    written: list[InternalRecord] = []
    for tries_left in reversed(range(TRIES)):
        try:
            turn = cluster.turn(flow.name, flow.ledger_topic, flow.copy.transaction_timeout_ms)
            if written and _stand(flow, cluster, written):
                return True
            if written := wanted():
                turn.write({flow.ledger_topic: written})
            return bool(written)
        except TransientError:
            if not tries_left:
                raise
            time.sleep(random.uniform(0.0, 0.1))
    raise AssertionError("unreachable")


def _stand(flow: FlowSettings, cluster: Cluster, written: Sequence[InternalRecord]) -> bool:
    latest = latest_or_empty(cluster, flow.ledger_topic)
    return all(latest.get(record.key) == record.value for record in written)
