"""Decode the assignment of a Connect worker, as its group keeps it.

Source: ConnectProtocol and IncrementalCooperativeConnectProtocol in org.apache.kafka.connect.runtime.distributed.

    INT16 version, INT16 error, STRING leader, STRING leader URL, INT64 config offset,
    ARRAY of (STRING connector, ARRAY of INT32 task); later versions add fields behind it

Task -1 is the connector itself, which also runs while it has no tasks (a stopped connector, KIP-875).
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.formats.mm2.kafka_struct import StructReader

CONNECTOR_ITSELF = -1


def parse_assignment(data: bytes) -> Mapping[str, int]:
    """Count the tasks of each connector that a worker runs; empty if the worker was assigned nothing.

    Raises FormatError for bytes that are not an assignment.
    """
    if not data:
        return {}
    reader = StructReader(data, "Connect assignment")
    reader.int16()
    reader.int16()
    reader.string()
    reader.string()
    reader.int64()
    tasks: dict[str, int] = {}
    for _ in range(max(0, reader.int32())):
        name = reader.string()
        numbers = [reader.int32() for _ in range(max(0, reader.int32()))]
        tasks[name] = tasks.get(name, 0) + sum(number != CONNECTOR_ITSELF for number in numbers)
    return tasks
