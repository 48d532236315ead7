"""What the triggerer does while a flow is not ready."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from twinlog.errors import ClusterUnreachable, ConfigError

pytestmark = pytest.mark.airflow


def result(ready: bool) -> Any:
    from twinlog.airflow.triggers import Seen

    return Seen(ready, "READY", () if ready else ("A->B is not ready", "lag: 3 records"))


def fired(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[Any, int]:
    """Run the trigger over these answers, each of which takes 0.2 s; return its event, and how often the loop ran."""
    from twinlog.airflow import triggers

    left = list(answers)

    def look(**_asked: object) -> Any:
        time.sleep(0.2)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(triggers, "look", look)
    made = triggers.ReadinessTrigger(
        flow="A->B", failover_mode="planned", producers_stopped=False, canary=False, poke_interval=0
    )
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def both() -> Any:
        ticking = asyncio.create_task(tick())
        event = await anext(made.run())
        ticking.cancel()
        return event

    event = asyncio.run(both())
    assert [] == left
    return event.payload, ticks


def test_it_asks_until_there_is_a_yes(monkeypatch) -> None:
    """Through a no and a cluster that does not answer; the loop goes on meanwhile."""
    event, ticks = fired(monkeypatch, result(False), ClusterUnreachable("away"), result(True))
    assert {"seen": "READY"} == event
    assert ticks > 10


def test_what_will_not_go_away_goes_to_the_worker(monkeypatch) -> None:
    """It asks again, and fails with the same error."""
    event, _ = fired(monkeypatch, ConfigError("line 3 is wrong"))
    assert {"seen": "line 3 is wrong"} == event


def test_another_triggerer_makes_the_same(monkeypatch) -> None:
    """From what is in the database."""
    from airflow.sdk.module_loading import import_string

    from twinlog.airflow.triggers import ReadinessTrigger

    told = {
        "flow": "A->B",
        "failover_mode": "source-dead",
        "producers_stopped": True,
        "canary": False,
        "poke_interval": 5.0,
    }
    path, arguments = ReadinessTrigger(**told).serialize()
    assert (path, told) == import_string(path)(**arguments).serialize()


def test_the_loop_imports_nothing_that_takes_time() -> None:
    """Airflow imports a trigger's module in the loop; clients and the gate are imported in the thread."""
    heavy = [
        "confluent_kafka",
        "great_expectations",
        "pandas",
        "twinlog.gate.ask",
        "twinlog.config.flow.load",
    ]
    script = f"import sys, twinlog.airflow.triggers; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "[]" == answer.stdout.strip().splitlines()[-1]
