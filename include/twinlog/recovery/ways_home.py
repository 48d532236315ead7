"""Say by which flow a promoted flow goes home.  Pure, and light: Airflow parses its Dag files every few seconds.

If topics keep their names, that is the flow `B->A` of the file.  If they do not, it leaves copies of A's topics out, as
MM2's cycle rule wants it, and a flow is made for it, `B.home->A`: it copies from each copy (`A.orders`) into the topic
that it is a copy of (`orders`), only on the way home, and keeps its state on A under its own name.  So cycles of `B->A`
stay as they are, and nothing passes the records that came home on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from twinlog.config.flow.copying import LifecycleSettings
from twinlog.config.flow.load import enabled_flow
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import TerminalError
from twinlog.policy.state_topics import HOME
from twinlog.transforms.chain import NO_CHAIN

EACH_MINUTE = "* * * * *"
"""When cycles bring records home if the usual flow is continuous: a way home waits, and does not stay open."""


def named_flow(configuration: Configuration, name: str) -> FlowSettings | None:
    """Return the flow `B.home->A`, which only brings home, if that is the name; None for another.

    Raises ConfigError if the file has no flow `A->B`, and as `way_home`.
    """
    if f"{HOME}->" not in name or name in configuration.flows:
        return None
    there, _, here = name.partition(f"{HOME}->")
    found = way_home(configuration, enabled_flow(configuration, f"{here}->{there}"))
    return found if found.name == name else None


def flow_called(configuration: Configuration, name: str) -> FlowSettings:
    """Return an enabled flow of the file, or `B.home->A`.  Raises UsageError for another name, and as `way_home`."""
    return named_flow(configuration, name) or enabled_flow(configuration, name)


def ways_home(configuration: Configuration) -> Iterator[FlowSettings]:
    """Yield the flow `B.home->A` of each enabled flow that goes home by one, in the order of the file."""
    for flow in configuration.enabled_flows:
        with suppress(TerminalError):
            if not flow.observed and (home := way_home(configuration, flow)).homes is not None:
                yield home


def reverse_of(configuration: Configuration, flow: FlowSettings) -> FlowSettings | None:
    """Return the enabled flow in the other direction, None if the file has none."""
    reverse = configuration.flows.get(_name(flow))
    return reverse if reverse is not None and reverse.enabled else None


def way_home(configuration: Configuration, flow: FlowSettings) -> FlowSettings:
    """Return the flow by which a promoted flow goes home: that of the file if names stay, else one made for it.

    Raises TerminalError `no-way-home` if there is none.
    """
    name = _name(flow)
    found = configuration.flows.get(name)
    # Heartbeats have other names in any case.
    if flow.policy.format_remote_topic(flow.source.alias, "orders") == "orders":
        return require_reverse(flow, found)
    if found is None:
        raise TerminalError(
            f"{flow.name} cannot go home: the file has no flow {name}, so how to copy home is not known",
            f"{name}.enabled = true, or {name}.emit.heartbeats.enabled = true if it is to copy nothing else",
            code="no-way-home",
            flow=flow.name,
        )
    return homeward(found, flow)


def homeward(usual: FlowSettings, flow: FlowSettings) -> FlowSettings:
    """Return the flow that brings the records of a flow's copies home, by the settings of the `usual` one.

    It copies nothing before it knows the names (`homes.named`), every record as it is, from the first on that no flow
    copied, and decides nothing about topics by itself.
    """
    return replace(
        usual,
        enabled=True,
        homes={},
        schedule=EACH_MINUTE if usual.continuous else usual.schedule,
        transforms=NO_CHAIN,
        offset_storage_topic="",
        emit_offset_syncs=False,
        heartbeats_replication=False,
        reverse_heartbeats=None,
        other_heartbeats=(),
        source_heartbeats=None,
        lifecycle=LifecycleSettings(),
        copy=replace(usual.copy, start_from_latest=False),
        tiers=tuple(replace(tier, start=None) for tier in usual.tiers),
        refresh_topics=True,
    )


def require_reverse(flow: FlowSettings, reverse: FlowSettings | None) -> FlowSettings:
    """Return the flow that copies home.  Raises TerminalError `no-way-home` if the file enables none."""
    if reverse is not None and reverse.enabled:
        return reverse
    raise TerminalError(
        f"no flow {_name(flow)} is enabled: nothing brings home what was written on {flow.target.alias}",
        f"{_name(flow)}.enabled = true, and run it once",
        code="no-way-home",
        flow=flow.name,
    )


def _name(flow: FlowSettings) -> str:
    return f"{flow.target.alias}->{flow.source.alias}"
