"""Faults of single brokers: they stop answering, or die and come back on the same address."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from stage import Stage
from wired import Wired


def a_source_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGSTOP and SIGCONT: connections stay open."""
    stop_answering(stage, source)


def a_target_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """The same on the other side: commits and their answers are on their way meanwhile."""
    stop_answering(stage, target)


def stop_answering(stage: Stage, wired: Wired) -> None:
    def pause() -> bool:
        wired.cluster.pause()
        try:
            time.sleep(stage.chance.uniform(0.5, 2.0))
            return stage.copying
        finally:
            wired.cluster.resume()

    stage.hurt(pause)


def a_killed_source(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGKILL and a restart on the same address."""
    die_midway(stage, source)


def a_killed_target(stage: Stage, source: Wired, target: Wired) -> None:
    """With it die its open transactions' producers' states, to be read from the log again."""
    die_midway(stage, target)


def both_killed(stage: Stage, source: Wired, target: Wired) -> None:
    """A power cut."""
    die_midway(stage, source, target)


def die_midway(stage: Stage, *wired: Wired) -> None:
    """Other schedules need the brokers, whatever comes out of this one: they are started before it is judged."""

    def die() -> bool:
        for it in wired:
            it.cluster.kill()
        copying = stage.copying
        with ThreadPoolExecutor(len(wired)) as pool:
            list(pool.map(lambda it: it.cluster.start(), wired))
        return copying

    stage.hurt(die)
