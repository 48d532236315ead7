"""Writing twinlog's own records as the driver that holds the fence: all of them in one transaction, or none.

For what a driver has to say outside a copy, such as positions it took over from MirrorMaker 2: whoever fenced the
flow since makes the transaction fail.
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
    """Commit `records` through the gate lane of a fence that was just passed, and wait until readers see them.

    Raises FencedError when another driver fenced the flow meanwhile, TerminalError `state-refused` for a record
    the target refuses, and TransientError for one that nobody takes now; nothing is written then.
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
