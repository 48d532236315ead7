"""Faults of networks: connections cut, slow, and answers that never come."""

from __future__ import annotations

import time

from proxy import DOWN, UP
from stage import Stage, until
from wired import Wired

from twinlog.protocol import kafka_python, wire

END_TXN = int(kafka_python.END_TXN.request.API_KEY)
WRITING = (
    wire.PRODUCE,
    END_TXN,
    *(int(api.request.API_KEY) for api in (kafka_python.ADD_PARTITIONS, kafka_python.INIT_PRODUCER_ID)),
)


def cuts(stage: Stage, source: Wired, target: Wired) -> None:
    """Connections reset in the middle of requests and of answers, on either side."""
    faults = [source.proxy.faults, target.proxy.faults]
    before = sum(it.cuts for it in faults)

    def enough() -> bool:
        chosen = stage.chance.choice(faults)
        chosen.cut_after.setdefault(stage.chance.choice([UP, DOWN]), stage.chance.randrange(60_000))
        return sum(it.cuts for it in faults) >= before + 6 or not stage.copying

    until(enough)
    assert sum(it.cuts for it in faults) > before


def a_slow_network(stage: Stage, source: Wired, target: Wired) -> None:
    """Late answers, little bandwidth, then every connection gone at once."""
    faults = [source.proxy.faults, target.proxy.faults]

    def slow() -> bool:
        before = [it.held_up for it in faults]
        for it in faults:
            it.delay_seconds = stage.chance.uniform(0.001, 0.01)
            it.bytes_per_second = 400_000 if stage.large else 100_000
        time.sleep(1.5)
        hit = stage.copying and all(it.held_up > old for it, old in zip(faults, before, strict=True))
        for wired in (source, target):
            wired.proxy.faults.calm()
            wired.proxy.cut_all()
        return hit

    stage.hurt(slow)


def lost_commits(stage: Stage, source: Wired, target: Wired) -> None:
    """The target commits and the answer never comes: asked again until it is answered, it says committed."""
    lost = target.proxy.faults.lost_answers
    before = lost[END_TXN]
    target.proxy.faults.lose_answers_of[END_TXN] = 6
    until(lambda: lost[END_TXN] >= before + 6 or not stage.copying)
    assert lost[END_TXN] > before


def delivered_late(stage: Stage, source: Wired, target: Wired) -> None:
    """Writing requests that their client has given up arrive behind what came after them (KAFKA-17754).

    Up to three seconds late: twice as long as a transaction may last, and several fences.
    """
    faults = target.proxy.faults
    before = [faults.late[key] for key in WRITING]

    def late() -> bool:
        faults.late_seconds = stage.chance.uniform(0.0, 3.0)
        faults.deliver_late.update(WRITING)
        until(lambda: not any(faults.deliver_late.values()) or not stage.copying)
        until(lambda: not faults.on_the_way)
        return not any(faults.deliver_late.values())

    for _ in range(3):
        stage.hurt(late)
    hits = [faults.late[key] - old for key, old in zip(WRITING, before, strict=True)]
    assert all(hits), hits


def lost_answers(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers lost of every other kind of request, on either side.

    That of a produce request makes the driver fence again, which asks what only a fence asks.
    """
    fencing = [kafka_python.INIT_PRODUCER_ID, kafka_python.ADD_PARTITIONS, kafka_python.FIND_COORDINATOR]
    keys = [wire.PRODUCE, *(int(api.request.API_KEY) for api in fencing)]
    asked = [(target.proxy.faults, key) for key in keys] + [(source.proxy.faults, wire.FETCH)]
    before = [faults.lost_answers[key] for faults, key in asked]
    for faults, key in asked:
        faults.lose_answers_of[key] = 2
    until(lambda: not any(faults.lose_answers_of[key] for faults, key in asked) or not stage.copying)
    hits = [faults.lost_answers[key] - old for (faults, key), old in zip(asked, before, strict=True)]
    assert all(hits), hits
