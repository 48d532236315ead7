"""`twinlog machine demo`: replication between two real clusters on this machine, from nothing to a proof."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

from twinlog.cli.options import option
from twinlog.cli.render import Grid, Lines, say, show
from twinlog.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from twinlog.lab.demo.play import DemoReport
    from twinlog.lab.demo.stage import Stage


def demo(
    keep: Annotated[bool, option("--keep", "Leave the clusters and Airflow's UI running.")] = False,
    stop: Annotated[bool, option("--stop", "End what --keep left running.")] = False,
    without_airflow: Annotated[
        bool, option("--without-airflow", "Run the cycles by twinlog run --once, without Airflow.")
    ] = False,
) -> int:
    """Replicate between two real Kafka clusters through Airflow and Spark, and compare every record.

    Exit 0 when every record is equal.

    Example: `twinlog machine demo --keep`. Next: `twinlog machine demo --stop`.
    """
    if without_airflow and keep:
        raise UsageError("--keep leaves Airflow's UI running", "leave out --without-airflow")
    from twinlog.lab.demo import by_hand
    from twinlog.lab.demo.play import play
    from twinlog.lab.demo.stage import open_machinery, open_stage, stop_kept

    if stop:
        say("stopped" if stop_kept() else "no demo was kept")
        return ExitCode.DONE
    signal.signal(signal.SIGTERM, _end)
    started = time.monotonic()

    def tell(line: str) -> None:
        """Print a line with the seconds since the beginning in front."""
        say(f"{time.monotonic() - started:5.0f} s  {line}")

    if without_airflow:
        tell("starting two Kafka clusters and a warm Spark (the first time, Kafka's jars are fetched)")
        with open_machinery() as made:
            report = by_hand.play(made, tell)
        show(report, _grids(report))
        return ExitCode.of(report.equal)
    tell("starting two Kafka clusters and Airflow (the first time, Kafka's jars are fetched)")
    with open_stage(keep=keep) as stage:
        report = play(stage, tell)
        show(report, _grids(report))
        for line in _addresses(stage) if keep else ():
            say(line)
    return ExitCode.of(report.equal)


def _end(_signal: int, _frame: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


def _grids(report: DemoReport) -> list[Grid | Lines]:
    verdict = "every record is equal" if report.equal else "NOT everything is equal"
    latency = report.heartbeat_latency_ms
    beat = (
        "no heartbeat was copied"
        if latency is None
        else f"newest copied heartbeat {latency / 1000:.1f} s old"
    )
    failed = f", {report.failed_cycles} of them failed" if report.failed_cycles else ""
    return [
        Grid.of(
            f"{verdict}; {report.records:,} records in {report.cycles} cycles{failed},"
            f" {report.records_per_second:,} records/s while copying; {beat}",
            "topic | what it shows: shows | on A: source_records | on B: target_records | lag: lag_records"
            " | records/s: records_per_second | equal",
            report.topics,
            equal=lambda it: "yes" if it.equal else f"no: {it.difference}",
        ),
        Lines(
            "where to look next",
            (
                "twinlog machine demo --keep             the same, and the clusters and Airflow's UI stay",
                "twinlog plan --explain --config FILE   what a configuration of yours means, value by value",
                "twinlog run --once --config FILE   a cycle without Airflow",
                "docs/architecture.md            how it works, and why nothing is lost or doubled",
            ),
        ),
    ]


def _addresses(stage: Stage) -> tuple[str, ...]:
    api = stage.airflow.api
    return (
        "still running:",
        f"  Airflow          {api.url}   user {api.user}, password {api.password}",
        f"  its twinlog page {api.url}/plugin/replication",
        f"  cluster A        {stage.source.bootstrap_servers}",
        f"  cluster B        {stage.target.bootstrap_servers}",
        f"  configuration    {stage.config}",
        "  to end it all    twinlog machine demo --stop",
    )
