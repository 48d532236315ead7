"""A header of the progress that a lane stores tells what it has committed."""

import pytest

from twinlog.formats.lane_counts import LANE, LaneCounts, lane_header, newest_of_lanes, parse_lane_counts

COUNTS = LaneCounts(1_764_430_000_000, 3, 1_764_430_000_900, 4, 1, 500, -1, 20, 3_000, 15, 2_000)


def test_counts_survive_the_round_trip() -> None:
    """Among whatever other headers."""
    assert parse_lane_counts((("other", b"7"), *lane_header(COUNTS))) == COUNTS


@pytest.mark.parametrize("content", [None, b"", b"1 2", b"x " * 11, lane_header(COUNTS)[0][1] + b" 7"])
def test_what_is_no_counts_tells_nothing(content: bytes | None) -> None:
    """They are only shown: nothing stops for them."""
    assert parse_lane_counts(((LANE, content),)) is None


def test_a_lane_is_as_its_last_commit_says() -> None:
    """A partition that advanced earlier still has the counts of then."""
    later, other = COUNTS._replace(commits=9), COUNTS._replace(lane=1)
    assert {3: later, 1: other} == newest_of_lanes([later, COUNTS, other])
