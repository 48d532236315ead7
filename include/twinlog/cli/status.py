"""`twinlog status`: how far the copy is behind, in records and seconds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinlog.cli.failure import Failure
from twinlog.cli.flows import each_flow, load_flows
from twinlog.cli.gap import grid as gap_grid
from twinlog.cli.options import ConfigOption, FlowOption, Output, OutputOption, StrictOption
from twinlog.cli.render import Cell, Grid, show
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.formats.ledger.gate import RiskSample
    from twinlog.monitoring.status import FlowStatus, StoppedTopic, TopicStatus


@dataclass(frozen=True, slots=True)
class StatusOf:
    """The status of one flow, or the reason why there is none."""

    flow: str
    status: FlowStatus | None = None
    error: Failure | None = None

    @property
    def document(self) -> dict[str, Any]:
        """Return the JSON document that other programs rely on."""
        unknown: dict[str, Any] = {
            "flow": self.flow,
            "state": "unknown",
            "rpo_seconds": None,
            "lag_records": None,
            "topics": [],
            "gaps": [],
            "incarnations": [],
        }
        return {**(unknown if self.status is None else to_json(self.status)), "error": to_json(self.error)}


def status(
    *,
    config: ConfigOption,
    flow: FlowOption = None,
    strict: StrictOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Show lag in records and seconds, gaps and the state of each flow.

    Exit code 1: a topic is stopped, and no cycle copies it before a person acts.
    """
    done = each_flow(
        load_flows(config, flow, strict=strict),
        lambda one: StatusOf(one.name, status_of(one)),
        lambda one, failure: StatusOf(one.name, error=failure),
    )
    seen = [it.status for it in done.results if it.status is not None]
    show({"flows": [it.document for it in done.results]}, output, (g for it in seen for g in _grids(it)))
    return max(done.exit_code, int(ExitCode.SAYS_NO) if any(it.needs_person for it in seen) else 0)


def status_of(flow: FlowSettings) -> FlowStatus:
    """Ask both clusters; if the source is gone, return the last known state."""
    from twinlog.cluster.open import open_clusters
    from twinlog.monitoring import status as step

    with open_clusters(flow) as clusters:
        return step.run(flow, clusters)


def _grids(status: FlowStatus) -> Iterator[Grid]:
    yield Grid(
        _title(status),
        (
            "topic",
            "to topic",
            "partitions",
            "lag (records)",
            "undecided",
            "bytes, about",
            "oldest not copied (s)",
            "RPO (s)",
            "",
        ),
        [
            *(
                (it.topic, it.remote_topic, it.partitions, *(None,) * 5, f"stopped: {it.message}")
                for it in status.stopped
            ),
            *(_row(it) for it in status.topics),
        ],
        empty="the source cannot be asked" if not status.source_reachable else "no topic",
    )
    if status.members:
        yield Grid(
            f"{status.flow}: processes that follow it",
            ("", "host", "process", "version", "configuration", "run"),
            [
                (it.role.value, it.host, it.pid, it.version, it.config[:12], it.run_id)
                for it in status.members
            ],
        )
    if status.undecided:
        yield Grid(
            f"{status.flow}: undecided, not copied before a transaction of the source ends",
            ("what", "what to do"),
            [(it.message, it.hint) for it in status.undecided],
        )
    if status.upstream:
        yield Grid(
            f"{status.flow}: heartbeats in the target's topics",
            ("flow that wrote them", "copied through", "newest (s ago)"),
            [
                (f"{it.source_alias}->{it.target_alias}", " <- ".join(it.chain), f"{it.age_ms / 1000:,.1f}")
                for it in status.upstream
            ],
        )
    if status.risk_history:
        worst = max(status.risk_history, key=lambda it: it.age_ms)
        yield Grid(
            f"{status.flow}: the most that was at risk in the last day, as cycles saw it",
            ("records", "bytes, about", "oldest not copied (s)", "cycles seen in slots of 5 min"),
            [
                (
                    max(it.records for it in status.risk_history),
                    max((it.bytes for it in status.risk_history if it.bytes is not None), default=None),
                    _known_age(worst, status.risk_history),
                    len(status.risk_history),
                )
            ],
        )
    lost = [(it, row) for it in status.topics for row in it.partitions if row.unmapped_offsets]
    if lost:
        yield Grid(
            f"{status.flow}: copied, but the offset map has lost where to (map-lost; see `twinlog audit`)",
            ("topic", "partition", "offsets"),
            [(it.topic, row.partition, row.unmapped_offsets) for it, row in lost],
        )
    early = [(it, row) for it in status.topics for row in it.partitions if row.deleted_early]
    if early:
        yield Grid(
            f"{status.flow}: copied, and deleted from the copy though the source holds it (deleted-early; see `twinlog"
            " audit`)",
            ("topic", "partition", "records, at most", "what to do"),
            [
                (it.topic, row.partition, row.deleted_early, f"twinlog rebuild --topic {it.topic}")
                for it, row in early
            ],
        )
    if status.gaps:
        yield gap_grid(status.flow, status.gaps)
    if status.paused:
        yield Grid(
            f"{status.flow}: paused topics",
            ("topic", "since", "by", "reason"),
            [(it.topic, it.since, it.by, it.reason) for it in status.paused],
        )
    if status.orphans:
        yield Grid(
            f"{status.flow}: copies that nothing is copied into",
            ("copy", "source topic", "why", "reason"),
            [(it.remote_topic, it.topic, it.kind.value, it.reason) for it in status.orphans],
        )
    if status.problems:
        yield Grid(
            f"{status.flow}: in the way",
            ("topic", "what", "what to do"),
            [(it.topic, it.message, it.hint) for it in status.problems],
        )


def _row(it: TopicStatus) -> tuple[Cell, ...]:
    return (
        it.topic,
        it.remote_topic,
        len(it.partitions),
        it.lag_records,
        it.undecided_records,
        it.lag_bytes,
        it.rpo_seconds,
        it.rpo_budget_seconds,
        "over its RPO" if it.over_budget else "",
    )


def _known_age(worst: RiskSample, history: Iterable[RiskSample]) -> float | None:
    """Return the worst age in seconds; None if it is 0 and the age of some samples was unknown."""
    return worst.age_ms / 1000 if worst.age_ms or all(it.age_known for it in history) else None


def _title(status: FlowStatus) -> str:
    source = (
        "" if status.source_reachable else f"; the source is out of reach, as of {status.as_of or 'never'}"
    )
    told = status.held or status.state.value
    stopped = f", {_stopped(status.stopped)}" if status.stopped else ""
    return f"{status.flow}: {told}{stopped}, {_behind(status)}{source}"


def _stopped(stopped: Sequence[StoppedTopic]) -> str:
    topics = f"{len(stopped):,} topic{'s' if len(stopped) > 1 else ''} stopped"
    act = " until a person acts" if any(it.person for it in stopped) else ""
    return f"{topics}{act} (why: in the table; what to do: under `in the way`)"


def _behind(status: FlowStatus) -> str:
    """Say how far the copy is behind; before the first cycle nothing was copied, and 0 would say otherwise."""
    gone = sum(row.deleted_early for it in status.topics for row in it.partitions)
    early = f", {gone:,} deleted from the copy early" if gone else ""
    undecided = f", {status.undecided_records:,} undecided" if status.undecided_records else ""
    unseen = f", {status.unseen_partitions:,} partitions not looked at" if status.unseen_partitions else ""
    if not status.has_run:
        waiting = f"; {status.lag_records:,} records to copy" if status.lag_records else ""
        return f"no cycle has ever ended (`twinlog run --once`, or its Dag){waiting}{undecided}{unseen}"
    lag = "lag not known" if status.lag_records is None else f"{status.lag_records:,} records behind"
    age = (
        ", age of the oldest record not copied: not known"
        if status.rpo_seconds is None
        else f", {status.rpo_seconds:,.1f} s"
    )
    return f"{lag}{early}{undecided}{unseen}{age}"
