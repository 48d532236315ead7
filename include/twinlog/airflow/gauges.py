"""Send numbers as Airflow metrics: through StatsD or OpenTelemetry, as the operator has configured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from twinlog.airflow.versions import Stats
from twinlog.fact import greatest
from twinlog.monitoring import metrics

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.gate.answer import GateResult
    from twinlog.monitoring.metrics import Sample


def send(flow: FlowSettings, samples: Iterable[Sample]) -> None:
    """Send what is known, without the numbers of single topics.

    The flow's name and the labels are part of the gauge's name, because plain StatsD drops tags.
    """
    for sample in samples:
        if sample.value is not None and not sample.topic:
            words = ("twinlog", flow.name.replace("->", "__"), sample.metric.name, *sample.labels)
            Stats.gauge(".".join(words), sample.value)


def of_gate(flow: FlowSettings, result: GateResult) -> Iterator[Sample]:
    """Tell whether the gate was ready, its blocking checks, and the age of the oldest record at risk."""
    yield metrics.GATE_READY.of(int(result.ready))
    yield metrics.GATE_BLOCKING_CHECKS.of(len(result.blocking))
    strictest = min((tier.rpo_seconds for tier in flow.tiers), default=0)
    yield metrics.GATE_AT_RISK_SECONDS.of(
        greatest((topic.seconds for topic in result.topics), within=strictest)
    )
