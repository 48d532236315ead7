"""Define what is found out about a copy that another engine makes: frozen values, small enough for the ledger.

Upstream offsets are on the source, downstream offsets on the copy; a stretch is [first, end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.offsets.segments import Extent, MapSegment

Stretch = tuple[int, int]

HORIZON_MS = 5 * 60_000
"""How long the copy of a record must have been seen until nobody expects the engine to fall back behind it."""


class Finding(StrEnum):
    """What is wrong with a record of the copy, or of the source.

    - `missing`: a later source record is copied, and this one did not come within the horizon.
    - `doubled`: a copy of a record that had been copied before.
    - `changed`: key, value, headers or timestamp differ.
    - `reordered`: the record came after a later one.
    - `foreign`: a consumer of the source sees no such record; one of an aborted transaction, say, that was copied.
    """

    MISSING = "missing"
    DOUBLED = "doubled"
    CHANGED = "changed"
    REORDERED = "reordered"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Found:
    """Neighbouring records with one finding; a stretch holds them all, and nothing besides but offset gaps.

    `upstream` is None for foreign records, `downstream` for missing ones. `downstream` of doubled records are the
    later copies. `fields` name what differs in changed records: key, value, headers, timestamp.
    """

    kind: Finding
    upstream: Stretch | None
    downstream: Stretch | None
    records: int
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A stretch of source records, without offset gaps, that have no copy although a later record has one.

    `seen_ms` is when that was first seen, `told` says that they were named as missing.
    """

    upstream: Stretch
    seen_ms: int
    told: bool = False


@dataclass(frozen=True, slots=True)
class Carried:
    """What one increment hands on to the next.

    The next one reads the source from `source_to` and the copy from `target_to`. `copied_to` is the end of what was
    copied at least once; it is beyond `source_to` after an engine has fallen back. The map is closed up to `closed_to`;
    `open` are extents behind it, in the order of their upstream offsets. `marks` are (ms, downstream end): what was
    seen until when. In the stretches `unknown` it is not known what was copied. `unmatched_since` is when records at
    the copy's end were first seen that could not be told yet.
    """

    source_to: int
    target_to: int
    copied_to: int = 0
    closed_to: int = 0
    open: tuple[Extent, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unknown: tuple[Stretch, ...] = ()
    unmatched_since: int | None = None


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of matching an increment of one partition.

    - `segments` are the parts of the offset map that became final: each record's last copy. What lies between two
      segments is unknown.
    - `findings` are the first ones of each kind, in the order found, `counts` count the records of all.
    - `equal` counts copies that are equal in everything that can be compared.
    - `indistinct` counts source records that do not differ from the one before them: a doubled or missing one among
      them is counted, and where it stands in its run is not known.
    - `not_comparable` counts records whose counterpart is gone by retention or compaction, or cannot be read.
    - `source_records` and `target_records` were looked at in this increment.
    """

    segments: tuple[MapSegment, ...]
    findings: tuple[Found, ...]
    carried: Carried
    counts: Mapping[Finding, int] = field(default_factory=dict)
    equal: int = 0
    indistinct: int = 0
    not_comparable: int = 0
    source_records: int = 0
    target_records: int = 0
