"""What a Connect worker was assigned."""

import pytest

from twinlog.errors import FormatError
from twinlog.formats.mm2.connect_offset import parse_assignment
from twinlog.formats.mm2.kafka_struct import int16, int32, int64, string


def assignment(version: int, connectors: dict[str, list[int]], behind: bytes = b"") -> bytes:
    listed = b"".join(
        string(name) + int32(len(tasks)) + b"".join(map(int32, tasks)) for name, tasks in connectors.items()
    )
    head = int16(version) + int16(0) + string("leader") + string("http://w:8083/") + int64(7)
    return head + int32(len(connectors)) + listed + behind


@pytest.mark.parametrize(
    ("version", "behind"), [(0, b""), (1, int32(0) + int32(0)), (2, int32(-1) + int32(0))]
)
def test_tasks_are_counted(version: int, behind: bytes) -> None:
    """Not the connector itself (task -1): a stopped one has that alone."""
    data = assignment(version, {"A->B.MirrorSourceConnector": [-1, 0, 1], "stopped": [-1]}, behind)
    assert {"A->B.MirrorSourceConnector": 2, "stopped": 0} == parse_assignment(data)


def test_nothing_assigned() -> None:
    """A worker that has just joined."""
    assert {} == parse_assignment(b"") == parse_assignment(assignment(0, {}))


def test_other_bytes_are_an_error() -> None:
    """A group that is not Connect's is never taken for idle workers."""
    with pytest.raises(FormatError, match="Connect assignment"):
        parse_assignment(assignment(0, {"x": [0]})[:-2])
