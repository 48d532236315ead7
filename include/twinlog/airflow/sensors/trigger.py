"""Ask the readiness gate in Airflow's triggerer, in a thread: its event loop goes on meanwhile.

Triggers of all Dags share that loop.  So the gate judges without Great Expectations, whose import takes seconds, with
the same verdicts, and keeps nothing: the worker that goes on asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.tasks.readiness import gate_request, reasons
from twinlog.errors import TransientError, TwinlogError

if TYPE_CHECKING:
    from twinlog.gate.answer import GateResult
    from twinlog.gate.ask import GateRequest


class ReadinessTrigger(BaseTrigger):  # type: ignore[misc]
    """Fire if the gate says yes, or if it cannot be asked for a reason that will not go away by itself."""

    def __init__(
        self, *, flow: str, failover_mode: str, producers_stopped: bool, canary: bool, poke_interval: float
    ) -> None:
        super().__init__()
        self.flow = flow
        self.failover_mode = failover_mode
        self.producers_stopped = producers_stopped
        self.canary = canary
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer makes the same trigger of."""
        arguments = {
            "flow": self.flow,
            "failover_mode": self.failover_mode,
            "producers_stopped": self.producers_stopped,
            "canary": self.canary,
            "poke_interval": self.poke_interval,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask every `poke_interval` seconds; the worker has asked just before."""
        request = gate_request(self.failover_mode, self.producers_stopped, self.canary)
        while True:
            await asyncio.sleep(self.poke_interval)
            try:
                result = await asyncio.to_thread(look, self.flow, request)
            except TransientError as error:
                self.log.warning("%s cannot be asked now: %s", self.flow, error)
            except TwinlogError as error:
                yield TriggerEvent({"seen": str(error)})
                return
            else:
                if result.ready:
                    yield TriggerEvent({"seen": result.headline})
                    return
                self.log.info("%s is not ready for a failover (%s):", self.flow, self.failover_mode)
                for line in reasons(result):
                    self.log.info("%s", line)


def look(flow_name: str, request: GateRequest) -> GateResult:
    """Ask the gate; keep nothing."""
    from twinlog.checks.great_expectations import validate_plainly
    from twinlog.cluster.open import open_clusters
    from twinlog.gate import ask as gate

    flow = read_configuration(ask_airflow).enabled_flow(flow_name)
    with open_clusters(flow) as clusters:
        return gate.run(flow, clusters, request, by=validate_plainly).result
