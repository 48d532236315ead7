"""What is found out about a copy travels as JSON: in Spark's rows and in the ledger."""

import json

from pydantic import TypeAdapter

from twinlog.jsonable import to_json
from twinlog.observe.values import Carried, Extent, Finding, Found, MapSegment, Matched, Skipped


def test_json_keeps_everything():
    """Nothing is lost on the way."""
    carried = Carried(
        7, 9, 7, 5, (Extent(5, 7, 2),), ((1000, 9),), (Skipped((3, 4), 1000, True),), ((1, 2),), 5
    )
    found = Found(Finding.CHANGED, (1, 3), (2, 4), 2, ("value",))
    given = Matched(
        (MapSegment(0, 5, (Extent(0, 0, 3),)),), (found,), carried, {Finding.CHANGED: 2}, 5, 1, 2, 8, 9
    )
    assert given == TypeAdapter(Matched).validate_json(json.dumps(to_json(given)))
