"""Find and open the flow in the other direction: what it copies back belongs to what groups have read.

If topics keep their names, that is the flow `B->A` of the file.  If they do not, it leaves copies of A's topics out, as
MM2's cycle rule wants it, and a failback has a flow of its own, `B.home->A`: it copies from each copy (`A.orders`) into
the topic that it is a copy of (`orders`), only while a failback runs, and keeps its state on A under its own name.  So
cycles of `B->A` stay as they are, and nothing passes the records that came home on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters, open_clusters
from twinlog.config.flow.copying import Guarantee, LifecycleSettings
from twinlog.config.flow.load import enabled_flow
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import TerminalError
from twinlog.policy.state_topics import HOME
from twinlog.state.ledger import read_ledger
from twinlog.transforms.chain import NO_CHAIN


@dataclass(frozen=True, slots=True)
class Way:
    """A flow and its clusters."""

    flow: FlowSettings
    clusters: Clusters


def named_flow(configuration: Configuration, name: str) -> FlowSettings | None:
    """Return the flow `B.home->A`, which only brings home, if that is the name; None for another.

    Raises ConfigError if the file has no flow `A->B`, and as `way_home`.
    """
    if f"{HOME}->" not in name or name in configuration.flows:
        return None
    there, _, here = name.partition(f"{HOME}->")
    found = way_home(configuration, enabled_flow(configuration, f"{here}->{there}"))
    return found if found.name == name else None


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
    if _keeps_names(flow):
        return require_reverse(flow, found)
    if found is None:
        raise TerminalError(
            f"{flow.name} cannot go home: the file has no flow {name}, so how to copy home is not known",
            hint=f"{name}.enabled = true, or {name}.emit.heartbeats.enabled = true if it is to copy"
            " nothing else",
            code="no-way-home",
            flow=flow.name,
        )
    return homeward(found, flow)


def homeward(usual: FlowSettings, flow: FlowSettings) -> FlowSettings:
    """Return the flow that brings the records of a flow's copies home, by the settings of the `usual` one.

    It copies nothing before it knows the names (`with_homes`), every record as it is, from the first on that no flow
    copied, and decides nothing about topics by itself.  Raises TerminalError `two-way` unless both copy exactly once:
    only what is written in transactions can be told from others' records.
    """
    for it in (usual, flow):
        if it.copy.guarantee is not Guarantee.EXACTLY_ONCE:
            raise TerminalError(
                f"{flow.name} cannot go home: {it.name} copies at_least_once, and then what came home could not be"
                " told from other records",
                hint="twinlog.guarantee=exactly_once; `twinlog failback` saves what there is",
                code="two-way",
                flow=flow.name,
            )
    return replace(
        usual,
        enabled=True,
        homes={},
        transforms=NO_CHAIN,
        offset_storage_topic="",
        emit_offset_syncs=False,
        heartbeats_replication=False,
        reverse_heartbeats=None,
        other_heartbeats=(),
        source_heartbeats=None,
        lifecycle=LifecycleSettings(),
        copy=replace(usual.copy, start_from_latest=False),
        tiers=tuple(replace(it, start=None) for it in usual.tiers),
        refresh_topics=True,
    )


def with_homes(way: Way, homes: Mapping[str, str]) -> Way:
    """Return the way home of these topics, by the names of their copies."""
    return Way(replace(way.flow, homes=homes), way.clusters)


def as_noted(flow: FlowSettings, target: ClusterReader) -> FlowSettings:
    """Return a flow that only brings home with the names that its ledger has; another flow as it is.

    Its source need not answer.  Raises errors of the target.
    """
    if flow.homes is None or flow.homes:
        return flow
    lives = read_ledger(flow, target).incarnations.values()
    return replace(flow, homes={it.topic: it.remote_topic for it in lives})


def once_back(flow: FlowSettings, home: str) -> str:
    """Say what to do once the source of a flow is back that was promoted without it, on the way home of `home`."""
    return (
        f"once {flow.source.alias} answers, keep clients away from it: `twinlog failback --flow '{flow.name}'` saves"
        f" what never came home, `twinlog recovery follow --flow '{home}'` lets {home} follow"
    )


def require_reverse(flow: FlowSettings, reverse: FlowSettings | None) -> FlowSettings:
    """Return the flow that copies home.  Raises TerminalError `no-way-home` if the file enables none."""
    if reverse is not None and reverse.enabled:
        return reverse
    raise TerminalError(
        f"no flow {_name(flow)} is enabled: nothing brings home what was written on {flow.target.alias}",
        hint=f"{_name(flow)}.enabled = true, and run it once",
        code="no-way-home",
        flow=flow.name,
    )


def _name(flow: FlowSettings) -> str:
    return f"{flow.target.alias}->{flow.source.alias}"


def _keeps_names(flow: FlowSettings) -> bool:
    """Say whether the policy keeps the names of topics; heartbeats have others in any case."""
    return flow.policy.format_remote_topic(flow.source.alias, "orders") == "orders"


def opened_reverse(configuration: Configuration, flow: FlowSettings) -> AbstractContextManager[Way | None]:
    """Open the clusters of the enabled flow in the other direction; None if the file has none."""
    return _opened(reverse_of(configuration, flow))


def opened_way_home(configuration: Configuration, flow: FlowSettings) -> AbstractContextManager[Way | None]:
    """Open the clusters of the flow by which this one goes home; None if there is none."""
    try:
        return _opened(way_home(configuration, flow) if flow.homes is None else None)
    except TerminalError:
        return _opened(None)


@contextmanager
def _opened(flow: FlowSettings | None) -> Iterator[Way | None]:
    if flow is None:
        yield None
        return
    with open_clusters(flow) as clusters:
        yield Way(flow, clusters)
