"""`twinlog audit`: prove that the copy is equal, or show where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from twinlog.cli import options
from twinlog.cli.flows import ask_each, load_flows
from twinlog.cli.render import Grid, Lines, parts, show
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.audit.request import AuditRequest
    from twinlog.audit.result import AuditedDifference, AuditResult
    from twinlog.config.flow.settings import FlowSettings


def audit(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    full: Annotated[
        bool, options.option("--full", "Everything again, not only what is new since the last audit.")
    ] = False,
    topics: options.TopicsOption = None,
    master: Annotated[
        str | None, options.option("--master URL", "Compare on Spark: local[N], spark://... Default: here.")
    ] = None,
) -> int:
    """Compare the copy with its source, record by record, and remember what is proved.

    Exit 0: everything compared is equal. 1: it is not, nothing could be compared, or something could not be audited.
    3: a cluster, such as a dead source, cannot be reached; then no record was compared.

    Example: `twinlog audit --full --topic orders`. Next: `twinlog gate`.
    """
    from twinlog.audit.request import AuditMode, AuditRequest

    flows = load_flows(config, flow)
    mode = AuditMode.FULL if full else AuditMode.INCREMENTAL
    asked = AuditRequest(mode, options.parse_topics(topics))
    done = ask_each(flows, lambda one: audit_of(one, asked, master))
    unknown = {"equal": False, "proved": False, "differences": [], "partitions": []}
    documents = [result.document(**unknown) for result in done.results]
    # One flow is the document itself; several are a list, as in other commands.
    show(
        documents[0] if len(documents) == 1 else {"flows": documents},
        (grid for result in done.results if result.found is not None for grid in _grids(result.found)),
    )
    equal = all(result.found is None or result.found.equal for result in done.results)
    return done.exit_code or ExitCode.of(equal)


def audit_of(flow: FlowSettings, asked: AuditRequest, master: str | None) -> AuditResult:
    """Audit one flow, in this process or on Spark."""
    from twinlog.audit import audit as step
    from twinlog.audit.lane import LocalAuditRunner
    from twinlog.cluster.api import open_clusters

    with open_clusters(flow) as clusters:
        if master is None:
            return step.run(flow, clusters, LocalAuditRunner(), asked)
        from twinlog.spark.runner import open_audit_runner

        with open_audit_runner(master, f"twinlog audit {flow.name}") as runner:
            return step.run(flow, clusters, runner, asked)


def _grids(result: AuditResult) -> Iterator[Grid | Lines]:
    columns = (
        "topic | copy: remote_topic | partition | looked at: records | proved %: proved"
        " | as bytes: equal_bytes | one by one: equal_records | others': others | differences"
    )
    yield Grid.of(
        f"{result.flow}: {_verdict(result)}; {result.records:,} records looked at in {result.seconds:,.1f} s,"
        f" {_percent(result.coverage):.1f} % of the copy proved",
        columns,
        result.partitions,
        "no copied partition",
        proved=lambda it: _percent(it.coverage),
    )
    if result.left_to_clients:
        yield Lines("", ["The flow is promoted: what clients write behind the copies was not looked at."])
    if result.differences:
        columns = "topic | partition | upstream: upstream_offset | downstream: downstream_offset | kind | what: message"
        yield Grid.of(f"{result.flow}: differences", columns, result.differences)
        yield Lines("", [line for difference in result.differences[:20] for line in _excerpts(difference)])
    columns = "topic | partition | from upstream: start | to: end | records | why: reason"
    yield Grid.of(f"{result.flow}: could not be proved", columns, parts(result.partitions, "unproved"))
    yield Grid.of(
        f"{result.flow}: could not be audited",
        "topic | code | what: message | what to do: hint",
        result.problems,
    )


def _percent(share: float) -> float:
    """Return a share in percent, which shows as 100.0 only if it is all."""
    return 100.0 if share == 1 else min(99.9, 100 * share)


def _verdict(result: AuditResult) -> str:
    """Say in words what was found; equal and proved are two things."""
    from twinlog.audit.coverage import told
    from twinlog.audit.verdict import AuditVerdict

    missing = f"; not proved: {told(result.unproved)}" if result.unproved else ""
    match result.verdict:
        case AuditVerdict.EQUAL:
            return ("proved equal" if result.proved else "equal as far as compared, NOT proved") + missing
        case AuditVerdict.DIFFERENT:
            return "NOT equal" + missing
        case AuditVerdict.NOT_AUDITED:
            return "NOT audited in full" + missing
        case AuditVerdict.NOTHING_COMPARED:
            return "NOTHING compared" + missing
        case AuditVerdict.NOTHING_TO_COMPARE:
            return "nothing there to compare"


def _excerpts(difference: AuditedDifference) -> Iterator[str]:
    name = f"{difference.topic}-{difference.partition}"
    for side, offset, seen in (
        ("source", difference.upstream_offset, difference.source),
        ("target", difference.downstream_offset, difference.target),
    ):
        if seen is not None:
            headers = ", ".join(f"{key}={value or 'null'}" for key, value in seen.headers)
            yield (
                f"{name} {side} {offset}: key={seen.key or 'null'} value={seen.value or 'null'}"
                f" headers=[{headers}] timestamp={seen.timestamp}"
            )
