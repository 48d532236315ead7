"""Write twinlog's own records through the control lane of a fence: all in one transaction, or none.

Used by a driver that writes records outside a copy, such as positions migrated from MirrorMaker 2.  If another driver
has fenced the flow since, the transaction fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinlog import clock
from twinlog.errors import TerminalError, TransientError
from twinlog.lane.copy.state_records import StateRecord, batches
from twinlog.lane.fence.fence import GrantedLane
from twinlog.lane.producer import Lane
from twinlog.protocol.brokers import Brokers


def write_fenced(target: Brokers, gate: GrantedLane, records: Iterable[StateRecord]) -> None:
    """Commit `records` through the control lane of a fence just passed, and wait until readers see them.

    Raises FencedError if another driver fenced the flow meanwhile, TerminalError `state-refused` if the target refuses
    a record, and TransientError if a record's partition has no leader now.  Nothing is written in these cases.
    """
    sequences = {(topic, partition): number for topic, partition, number in gate.sequences}
    lane = Lane(target, gate.writer, sequences)
    refused = lane.write_state(batches(records, clock.now_ms()))
    if refused:
        lane.abort()
        final = next((it for it in refused if not it.resend), None)
        topic, partition = (final or refused[0]).partition
        if final is None:
            raise TransientError(
                f"{topic}-{partition} took no record of twinlog's: {refused[0].message}",
                hint="its leader has moved, or has gone; try again",
                code="unsettled",
            )
        raise TerminalError(
            f"{topic}-{partition} refused twinlog's own record: {final.message}",
            hint="run `twinlog check` for what is missing",
            code="state-refused",
            topic=topic,
        )
    lane.commit()
    lane.settle()
