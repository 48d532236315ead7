"""Hold a flow by fences, so that lanes of one lane generation write, and no others.

    state     event      next
    closed    fenced     fenced   the flow is this driver's, and no lane writes
    fenced    opened     open     the lanes that this fence has granted may write
    fenced    outgrown   closed   Spark has room for more lanes than this fence has granted
    open      ended      closed   every lane came to an end, or never began
    open      fenced     fenced   a new fence has ended the lanes: it is the next lane generation's fence, too

Invariants, each by the table:

- one generation: lanes are opened in the state `fenced` alone, so those of the generation before write no more;
- one use: a fence that lanes were opened behind is no other generation's fence, for they may have written since.

A fence of another driver moves nothing: it is raised as FencedError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError


class HoldState(StrEnum):
    """Name the states of a driver's hold on a flow."""

    CLOSED = "closed"
    FENCED = "fenced"
    OPEN = "open"


MOVES: Mapping[tuple[HoldState, str], HoldState] = {
    (HoldState.CLOSED, "fenced"): HoldState.FENCED,
    (HoldState.FENCED, "opened"): HoldState.OPEN,
    (HoldState.FENCED, "outgrown"): HoldState.CLOSED,
    (HoldState.OPEN, "ended"): HoldState.CLOSED,
    (HoldState.OPEN, "fenced"): HoldState.FENCED,
}


@dataclass(slots=True)
class Hold:
    """A driver's hold on a flow.

    Once this driver has `had` the flow, it gives way to a driver that `gives_way_to` accepts.
    """

    owned: Ownership
    gives_way_to: Callable[[str], bool]
    state: HoldState = HoldState.CLOSED
    had: bool = False

    def fence(self) -> None:
        """Take the flow by a new fence, which ends all lanes that are open.

        Raises FencedError if another driver has the flow, and as `Ownership.take`.
        """
        if self.had:
            self.owned.give_way(self.gives_way_to)
        try:
            self.owned.take()
        except FencedError:
            self.owned.require_not_taken()  # names the other driver
            raise
        self.had = True
        self._move("fenced")

    def open(self) -> None:
        """Begin a lane generation, with a fence of its own if no fence has ended the one before."""
        if self.state is not HoldState.FENCED:
            self.fence()
        self._move("opened")

    def end(self) -> None:
        """Note that no lane of the generation runs any more; nothing changes if a fence has ended them."""
        if self.state is HoldState.OPEN:
            self._move("ended")

    def grant(self, lanes: int) -> None:
        """Let the next generation have so many lanes."""
        if lanes > self.owned.lanes and self.state is HoldState.FENCED:
            self._move("outgrown")
        self.owned.lanes = lanes

    def _move(self, event: str) -> None:
        self.state = MOVES[self.state, event]
