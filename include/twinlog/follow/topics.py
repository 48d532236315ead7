"""The topics that are followed, read anew at intervals."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from twinlog.errors import TransientError
from twinlog.follow.followed import Followed
from twinlog.follow.report import Prepared, prepare


@dataclass(slots=True)
class Topics:
    """The topics that are followed: those `chosen`, all of the flow if that is None.

    - `prepared` is the newest reading that did not fail.
    - `read_at` (monotonic seconds) is the time of the newest try, `failure` why it failed.
    - `told` are the notes that people have been told.
    """

    followed: Followed
    chosen: Collection[str] | None
    run_id: str
    prepared: Prepared
    read_at: float = field(default_factory=time.monotonic)
    failure: TransientError | None = None
    told: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, followed: Followed, chosen: Collection[str] | None, run_id: str) -> Topics:
        """Read them for the first time.  Raises as `prepare`."""
        topics = cls(followed, chosen, run_id, prepare(followed.flow, followed.clusters, chosen, run_id))
        topics._tell_notes()
        return topics

    def refresh(self) -> TransientError | None:
        """Read them anew; return why that failed.  Raises TerminalErrors as `prepare`."""
        self.read_at, self.failure = time.monotonic(), None
        try:
            self.prepared = prepare(self.followed.flow, self.followed.clusters, self.chosen, self.run_id)
            self._tell_notes()
        except TransientError as error:
            self.failure = error
        return self.failure

    def _tell_notes(self) -> None:
        """Tell people what there is to say of topics and their copies, each note once."""
        for note in self.prepared.notes:
            if note not in self.told:
                self.followed.tell(note)
        self.told.update(self.prepared.notes)
