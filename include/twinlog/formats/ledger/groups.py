"""Define what the ledger keeps of where consumer groups stood: looks at all positions, packed, thinner with their age.

positions   base64 of zlib of JSON, sorted, so that equal positions are equal text:
{"topics": {topic: [its copy, topic id of the copy]},
"groups": {group: {topic: [[partition, upstream, downstream or null, 1 if exact], ...]}}}
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from twinlog.errors import FormatError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.jsonable import from_json


class Stand(NamedTuple):
    """Where a group stood: committed on the source at `upstream`, and as it was translated then (None: not at all)."""

    group: str
    topic: str
    partition: int
    remote_topic: str
    remote_id: str
    upstream: int
    downstream: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class GroupLook(LedgerEntry):
    """All positions of the flow's groups as read on the source at `at_ms`; `unseen` groups were not told then."""

    KIND: ClassVar[str] = "group-look"
    IDENTITY: ClassVar[tuple[str, ...]] = ("at_ms",)
    at_ms: int
    positions: str
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(cls, at_ms: int, stands: Iterable[Stand], unseen: Iterable[str] = ()) -> GroupLook:
        """Pack positions."""
        copies: dict[str, tuple[str, str]] = {}
        groups: dict[str, dict[str, list[list[int | None]]]] = {}
        for it in sorted(stands):
            copies[it.topic] = it.remote_topic, it.remote_id
            rows = groups.setdefault(it.group, {}).setdefault(it.topic, [])
            rows.append([it.partition, it.upstream, it.downstream, int(it.exact)])
        text = json.dumps({"topics": copies, "groups": groups}, separators=(",", ":"), sort_keys=True)
        packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
        return cls(at_ms, packed, tuple(sorted(unseen)))

    @property
    def stands(self) -> Iterator[Stand]:
        """Unpack the positions, in order.  Raises FormatError for what this release has not written."""
        try:
            found: dict[str, Any] = from_json(zlib.decompress(base64.b64decode(self.positions)))
            for group, topics in found["groups"].items():
                for topic, rows in topics.items():
                    name, topic_id = found["topics"][topic]
                    for number, upstream, downstream, exact in rows:
                        yield Stand(group, topic, number, name, topic_id, upstream, downstream, bool(exact))
        except (ValueError, LookupError, TypeError, AttributeError, zlib.error):
            raise FormatError(
                f"the positions of groups at {self.at_ms} in the ledger cannot be read",
                hint="find out who writes to the ledger; groups are not placed by it",
            ) from None
