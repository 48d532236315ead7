"""How a log is told of copies that run."""

from twinlog.copying import progress
from twinlog.copying.progress import CopyProgress, LaneProgress, Lines


def test_each_flow_has_a_line_of_its_own_every_so_often() -> None:
    """The first one when its round has lasted as long; flows do not take each other's turn."""
    said: list[str] = []
    lines = Lines(said.append)
    for flow, seconds in (("A->B", 1), ("A->B", progress.LINE_SECONDS), ("A->B", 12), ("C->B", 60)):
        lines.tell(CopyProgress(flow, seconds, (LaneProgress(0, 1, 5, 10, 0),)))
    assert ["A->B", "C->B"] == [line.split(":")[0] for line in said]
