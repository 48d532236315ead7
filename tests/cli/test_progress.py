"""How far a copy is, in a line."""

from twinlog.cli.progress import line
from twinlog.steps.copy_progress import CopyProgress, LaneProgress


def test_the_line_says_what_is_done_what_is_left_and_each_lane() -> None:
    """Records, speed, and MB where sizes are known."""
    lanes = (LaneProgress(0, 3, 50, 100, 500_000), LaneProgress(1, 1, 100, 100, 1_500_000))
    assert line(CopyProgress("A->B", 2.0, lanes)) == (
        "150 records copied, 50 to go, 75 records/s, 1.0 MB/s (lane 0 50%, lane 1 100%)"
    )
