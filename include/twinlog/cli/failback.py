"""`twinlog failback`: once the source of a promoted flow is back, save what it alone has, and say what differs."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinlog.cli.failover import DryRunOption
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.gate import SignOption
from twinlog.cli.options import ConfigOption, OneFlowOption, Output, OutputOption, StrictOption
from twinlog.cli.render import Grid, show, steps_grid
from twinlog.cli.say import say, say_step

if TYPE_CHECKING:
    from twinlog.recovery.failback.failback import FailbackReport


def failback(
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    dry_run: DryRunOption = False,
    sign_with: SignOption = None,
    strict: StrictOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Count what is on one side alone after a failover, and export what was never copied. The flow stays promoted.

    Exit 0: every partition was looked at, and all of it is exported. 1: the flow is not promoted, or a step failed; run
    it again. 3: a cluster cannot be reached or refuses.
    """
    from twinlog.gate.evidence import signing_key
    from twinlog.recovery.failback import failback as recovery
    from twinlog.recovery.failback.one_sided import opened_logs

    configuration, chosen = load_one_flow(config, flow, strict=strict)
    reverse = configuration.flows.get(f"{chosen.target.alias}->{chosen.source.alias}")
    request = recovery.Request(
        by=getpass.getuser(),
        configuration=configuration.path,
        configuration_sha256=configuration.sha256,
        dry_run=dry_run,
        reverse=reverse if reverse is not None and reverse.enabled else None,
        key=signing_key(sign_with or chosen.gate.sign_with),
        told=say_step,
    )
    with clusters_with_ledger(chosen) as clusters, opened_logs(chosen) as read:
        report = recovery.run(chosen, clusters, request, read)
    show(report.document, output, _grids(report))
    say(f"{report.flow}: {report.next}")
    return int(report.exit_code)


def _grids(report: FailbackReport) -> Iterator[Grid]:
    dry = "; a dry run, nothing was changed" if report.dry_run else ""
    yield steps_grid(
        f"{report.flow}: failback{dry}",
        report.steps,
    )
    rows = [
        (
            topic.topic,
            topic.remote_topic,
            it.partition,
            it.upstream_from,
            it.upstream_end,
            it.at_risk_records,
            it.downstream_from,
            it.downstream_end,
            it.only_on_target_records,
            "yes" if topic.comes_home else "no",
        )
        for topic in report.topics
        for it in topic.partitions
        if it.at_risk_records or it.only_on_target_records
    ]
    if rows:
        yield Grid(
            f"{report.flow}: on one side alone",
            (
                "topic",
                "copy",
                "partition",
                "from there",
                "to",
                "only there",
                "from here",
                "to",
                "only here",
                "comes home",
            ),
            rows,
        )
    if report.files:
        yield Grid(
            f"{report.flow}: files",
            ("file", "records", "SHA-256"),
            [(it.path, it.records, it.sha256) for it in report.files],
        )
