"""What is hurt, one function a fault.  Each asserts that it hit: a failure that hits nothing proves nothing.

A fault is inflicted on a stage while it copies, and returns when the trouble is over.  What it needs besides is said by
`Fault`: a copy that is on its way, or none, because it starts drivers of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from faults import brokers, drivers, network

if TYPE_CHECKING:
    from stage import Stage
    from wired import Wired


@dataclass(frozen=True)
class Fault:
    """One kind of trouble.

    `alone`: it starts drivers of its own; `in_turn`: not every day in CI; `costly`: for `make chaos` only.
    """

    inflict: Callable[[Stage, Wired, Wired], None]
    alone: bool = False
    in_turn: bool = False
    costly: bool = False

    @property
    def name(self) -> str:
        """What the report and the test's id call it."""
        return self.inflict.__name__


FAULTS = (
    Fault(network.cuts, in_turn=True),
    Fault(network.a_slow_network, in_turn=True),
    Fault(network.lost_commits),
    Fault(network.lost_answers, in_turn=True),
    Fault(network.delivered_late),
    Fault(brokers.a_source_that_stops_answering, in_turn=True),
    Fault(brokers.a_target_that_stops_answering),
    Fault(drivers.two_copiers),
    Fault(drivers.commits_lost_to_a_rival, in_turn=True),
    Fault(drivers.clock_jumps, in_turn=True),
    Fault(drivers.zombies, alone=True),
    Fault(drivers.sleepers, alone=True, in_turn=True),
    Fault(brokers.a_killed_source),
    Fault(brokers.a_killed_target),
    Fault(brokers.both_killed, costly=True),
)
"""The cheap ones first: what a restarted broker leaves behind slows down what follows."""
