"""Ask the readiness gate in Airflow's triggerer, in a thread: its event loop goes on meanwhile.

Triggers of all Dags share that loop.  So everything that takes time to import is imported in the thread, and the gate
judges without Great Expectations, with the same verdicts.  It keeps nothing: the worker that goes on asks again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from twinlog.errors import TransientError, TwinlogError


class ReadinessTrigger(BaseTrigger):  # type: ignore[misc]
    """Fire if the gate says yes, or if it cannot be asked for a reason that will not go away by itself.

    `asked` is what `look` takes.
    """

    def __init__(self, *, poke_interval: float, **asked: Any) -> None:
        super().__init__()
        self.poke_interval = poke_interval
        self.asked = asked

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer makes the same trigger of."""
        arguments = {**self.asked, "poke_interval": self.poke_interval}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask every `poke_interval` seconds; the worker has asked just before."""
        while True:
            await asyncio.sleep(self.poke_interval)
            try:
                seen = await asyncio.to_thread(functools.partial(look, **self.asked))
            except TransientError as error:
                self.log.warning("%s cannot be asked now: %s", self.asked["flow"], error)
            except TwinlogError as error:
                yield TriggerEvent({"seen": str(error)})
                return
            else:
                if seen.ready:
                    yield TriggerEvent({"seen": seen.headline})
                    return
                for line in seen.why_not:
                    self.log.info("%s", line)


@dataclass(frozen=True, slots=True)
class Seen:
    """The gate's answer in short; `why_not` has a line for each check that forbids the failover."""

    ready: bool
    headline: str
    why_not: Sequence[str]


def look(*, flow: str, failover_mode: str, producers_stopped: bool, canary: bool) -> Seen:
    """Ask the gate; keep nothing."""
    from twinlog.airflow.flows import read_configuration
    from twinlog.airflow.secrets import ask_airflow
    from twinlog.airflow.tasks.readiness import gate_request, why_not
    from twinlog.cluster.api import open_clusters
    from twinlog.config.flow.load import enabled_flow
    from twinlog.gate import ask as gate

    request = gate_request(failover_mode, producers_stopped, canary)
    settings = enabled_flow(read_configuration(ask_airflow), flow)
    with open_clusters(settings) as clusters:
        result = gate.run(settings, clusters, request).result
    return Seen(result.ready, result.headline, why_not(result))
