"""Keep in the ledger what a copy did to each of many partitions; `publish` reads it there.

The result of a copy of ten thousand partitions is megabytes, too much to pass through a scheduler's database each
minute. Only the totals and the first entries pass through it (twinlog.airflow.xcom).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.result import CopyResult
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.copy import CopyOutcome
from twinlog.jsonable import NOT_SHOWN, to_json
from twinlog.state.ledger import Ledger, write_ledger

log = logging.getLogger(__name__)

MANY = 200
"""From this many partitions on, a result may be cut on its way."""

MOST_CHARACTERS = 300
"""Most characters kept of one partition's error."""


def keep(flow: FlowSettings, target: Cluster, result: CopyResult) -> None:
    """Write the copy's outcome to the ledger if it covers many partitions.

    If the ledger refuses it, the report loses its details, but the copy does not fail.
    """
    if len(result.partitions) + len(result.stopped) < MANY:
        return
    try:
        write_ledger(flow, target, [outcome_of(result, clock.now_ms())])
    except TwinlogError as error:
        log.warning("what was copied of each partition is not kept for the report: %s", error)


def outcome_of(result: CopyResult, at_ms: int) -> CopyOutcome:
    """Choose what is kept of a result. Pure."""
    copied: defaultdict[str, dict[str, int]] = defaultdict(dict)
    errors: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for it in result.partitions:
        if it.copied_records:
            copied[it.topic][str(it.partition)] = it.copied_records
        if it.error:
            errors[it.topic][str(it.partition)] = it.error[:MOST_CHARACTERS]
    stopped = tuple({**to_json(it), "message": it.message[:MOST_CHARACTERS]} for it in result.stopped)
    return CopyOutcome(result.run_id, dict(copied), dict(errors), stopped, at_ms)


def completed(copy_result: Mapping[str, Any] | None, ledger: Ledger) -> Mapping[str, Any] | None:
    """Restore a result that was cut from the ledger's outcome of the same run. Pure.

    If another run has replaced that outcome meanwhile, the result stays as it is, and says how much is missing.
    """
    outcome = ledger.copy_outcome
    if copy_result is None or NOT_SHOWN not in copy_result:
        return copy_result
    if outcome is None or outcome.run_id != copy_result.get("run_id"):
        return copy_result
    places = {
        (topic, int(number))
        for told in (outcome.copied, outcome.errors)
        for topic, partitions in told.items()
        for number in partitions
    }
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "copied_records": outcome.copied.get(topic, {}).get(str(number), 0),
            "error": outcome.errors.get(topic, {}).get(str(number), ""),
        }
        for topic, number in sorted(places)
    ]
    whole = {name: value for name, value in copy_result.items() if name != NOT_SHOWN}
    return {**whole, "partitions": partitions, "stopped": list(outcome.stopped)}
