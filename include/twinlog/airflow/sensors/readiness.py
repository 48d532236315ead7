"""Wait until the readiness gate says yes: in a worker, or in the triggerer."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue

from twinlog.airflow.assets import readiness, with_outlet
from twinlog.airflow.plugin.links import FlowPageLink
from twinlog.airflow.recovery import MODES
from twinlog.airflow.retries import with_retries
from twinlog.airflow.tasks.readiness import ask, asset_extra, gate_request, why_not
from twinlog.airflow.triggers import ReadinessTrigger
from twinlog.airflow.versions import AirflowSensorTimeout, conf
from twinlog.errors import TransientError, UsageError
from twinlog.jsonable import Json


class FailoverReadinessSensor(BaseSensorOperator):  # type: ignore[misc]
    """Wait until a flow is ready for a failover, as the readiness gate says.

        FailoverReadinessSensor(task_id="ready", flow="A->B", deferrable=True, poke_interval=300, timeout=6 * 3600)

    `failover_mode` is `planned` (the source is alive) or `source-dead` (the target alone is asked).
    `producers_stopped` asks for the proof instead of whether a planned failover could begin; `canary` also writes a
    heartbeat and waits for its copy.  `flow` and `failover_mode` are templates.  The other arguments are Airflow's.

    If `deferrable`, the triggerer asks in between and no worker slot is taken.  Its yes is only the reason to ask again
    in a worker: what the sensor says, it has looked at just then.  A no is logged with a line for each check that
    forbids the failover.  A no and a cluster that does not answer are waited for.

    A yes keeps page and evidence, is the XCom (the gate's answer as JSON), and sends an event of the asset
    `twinlog://B/readiness`.  Raises UsageError for a flow or a mode that there is not, other TerminalErrors of the
    gate, and AirflowSensorTimeout, or a skip if `soft_fail`, if the gate has not said yes in time.
    """

    template_fields = ("flow", "failover_mode")
    operator_extra_links = (FlowPageLink(),)

    def __init__(
        self,
        *,
        flow: str,
        failover_mode: str = "planned",
        producers_stopped: bool = False,
        canary: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **arguments: Any,
    ) -> None:
        if arguments.get("mode") in MODES:
            raise UsageError(
                f"mode={arguments['mode']!r}: a sensor's mode is poke or reschedule",
                f"write failover_mode={arguments['mode']!r}",
            )
        super().__init__(**with_outlet(with_retries(arguments), flow, readiness))
        self.flow = flow
        self.failover_mode = failover_mode
        self.producers_stopped = producers_stopped
        self.canary = canary
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Wait here, or look once and leave the rest to the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        return self._look(context, time.time() + self.timeout)

    def looked(self, context: Context, event: Json, until: float) -> Any:
        """Ask again what the triggerer has seen, and wait on if it holds no longer; `until` is in epoch seconds."""
        self.log.info("the triggerer: %s; asking again", event["seen"])
        return self._look(context, until)

    def poke(self, context: Context) -> PokeReturnValue:
        """Ask the gate once."""
        request = gate_request(self.failover_mode, self.producers_stopped, self.canary)
        try:
            asked = ask(self.flow, request, keeps=lambda result: result.ready)
        except TransientError as error:
            self.log.warning("%s cannot be asked now: %s", self.flow, error)
            return PokeReturnValue(is_done=False)
        if not asked.result.ready:
            for line in why_not(asked.result):
                self.log.info("%s", line)
            return PokeReturnValue(is_done=False)
        document = asked.document
        self.log.info("%s", asked.result.headline)
        context["outlet_events"][readiness(asked.flow.target.alias)].extra = asset_extra(document)
        return PokeReturnValue(is_done=True, xcom_value=document)

    def _look(self, context: Context, until: float) -> Any:
        answer, left = self.poke(context), until - time.time()
        if answer:
            return answer.xcom_value
        if left <= 0:
            raise AirflowSensorTimeout(f"{self.flow} was not ready within {self.timeout:.0f} s")
        trigger = ReadinessTrigger(
            flow=self.flow,
            failover_mode=self.failover_mode,
            producers_stopped=self.producers_stopped,
            canary=self.canary,
            poke_interval=self.poke_interval,
        )
        return self.defer(
            trigger=trigger, method_name="looked", kwargs={"until": until}, timeout=timedelta(seconds=left)
        )
