"""`twinlog commitments`: what can be compared of masked fields without seeing them; nothing is changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli import options
from twinlog.cli.flows import load_one_flow
from twinlog.cli.render import show
from twinlog.cli.say import warn
from twinlog.errors import ExitCode
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.audit.commitments import Listed
    from twinlog.config.flow.settings import FlowSettings


class Side(StrEnum):
    """Name the cluster whose records are read."""

    SOURCE = "source"
    TARGET = "target"


SideOption = Annotated[
    Side,
    typer.Option(
        "--side",
        help="source: what its records get, for which the key is needed. target: what the copy holds.",
    ),
]


def commitments(
    *,
    config: options.ConfigOption,
    topic: options.SourceTopicOption,
    side: SideOption,
    flow: options.OneFlowOption = None,
    strict: options.StrictOption = False,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """List the commitments to the masked and hashed fields of a topic, a line each; nothing is changed.

    Only the cluster of that side is read, from its first record to its last.  If the lists of both sides have the same
    lines, the copy's fields were made of the source's.  On the target neither rules nor their keys are needed.  Exit
    code 1: some records could not be read, or none has a commitment.
    """
    from twinlog.transforms.commitments import Commitment

    _, one = load_one_flow(config, flow, strict=strict)
    found, unread = [], 0
    count = 0
    for place, item in _listed(one, topic, side):
        if not isinstance(item, Commitment):
            unread += 1
            warn(f"{place.topic}-{place.partition}, offsets {item.start} to {item.end}: {item.reason}")
            continue
        count += 1
        if output is options.Output.JSON:
            found.append(item)
        else:
            sys.stdout.write(f"{visible(str(item))}\n")
    if output is options.Output.JSON:
        show(found, output)
    if not count:
        warn(f"no record of {topic} on the {side} has a commitment")
    return int(ExitCode.SAYS_NO if unread or not count else ExitCode.DONE)


def _listed(flow: FlowSettings, topic: str, side: Side) -> Iterator[Listed]:
    from twinlog.audit.commitments import on_source, on_target
    from twinlog.cluster.kafka import KafkaCluster

    match side:
        case Side.SOURCE:
            return on_source(flow, KafkaCluster(flow.source), topic)
        case Side.TARGET:
            return on_target(flow, KafkaCluster(flow.target), topic)
