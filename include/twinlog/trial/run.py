"""Walk the parts of a trial on both clusters of a flow, and delete what they made, whatever happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill.clones import clone_of
from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
from twinlog.protocol.brokers import Brokers
from twinlog.trial.bench import Bench, Part
from twinlog.trial.parts import MAKE, SOURCE, TARGET, TIDY
from twinlog.trial.values import Answer, Tried

_RUN = re.compile(r"-\d{8}T\d{6}Z-[\w.-]*")
"""Matches the part of scratch names that differs from run to run; rights are granted for all of them."""


def run(
    flow: FlowSettings, clusters: Clusters, readable: str, told: Callable[[str], None]
) -> tuple[Tried, ...]:
    """Try a flow on its clusters; `readable` is a topic of the source that is read if none is made, "" for none.

    `told` hears what is made, and what could not be deleted.  Refusals are rows; the trial goes on behind them.
    """
    topic = f"{clock.new_run_name('twinlog-try')}.internal"
    group = clone_of(clock.new_run_name("drill"), topic)
    found: list[Tried] = []
    for cluster, settings, parts, scratch, known in (
        (clusters.source, flow.source, SOURCE, topic, readable),
        (clusters.target, flow.target, TARGET, flow.remote_name(topic), ""),
    ):
        told(f"{flow.name}: trying {cluster.alias}, with the scratch topic {scratch}")
        with Brokers(settings.connection) as brokers:
            bench = Bench(flow, settings, cluster, brokers, scratch, group, known)
            try:
                for part in parts:
                    found.append(_try(bench, part))
            finally:
                found += _tidy(bench, told)
    return tuple(found)


def _tidy(bench: Bench, told: Callable[[str], None]) -> Iterator[Tried]:
    """Undo what was tried, also if nobody knows what became of it."""
    for name, part in TIDY.items():
        bench.silent, made = "", bench.answers.get(name, Answer.NOT_TRIED)
        if made is Answer.NOT_TRIED:
            continue
        row = _try(bench, part)
        if row.answer is not Answer.WORKS and made is not Answer.REFUSED:
            kept = f"topic {bench.scratch}" if name == MAKE else f"group {bench.group}"
            told(f"{row.cluster} may keep {kept}: delete it by hand; {row.said}")
        yield row


def _try(bench: Bench, part: Part) -> Tried:
    """Try a part, unless there is no use in it."""
    bench.answers[part.name] = Answer.FAILED  # until it is known, also if it is broken off
    answer, said, remedy = Answer.NOT_TRIED, bench.silent or _why_not(bench, part), ""
    if not said:
        try:
            answer, said = Answer.WORKS, part.do(bench) or ""
        except TwinlogError as error:
            answer = Answer.FAILED if isinstance(error, TransientError) else Answer.REFUSED
            said, remedy = error.message, error.hint
            if isinstance(error, ClusterUnreachable):
                bench.silent = f"{bench.cluster.alias} had not answered before"
    bench.answers[part.name] = answer
    said, remedy = _RUN.sub("-*", said), _RUN.sub("-*", remedy)
    return Tried(bench.cluster.alias, part.name, answer, said, part.without, remedy)


def _why_not(bench: Bench, part: Part) -> str:
    lacking = [it for it in part.after if bench.answers[it] is not Answer.WORKS]
    if lacking:
        return f"{lacking[0]!r} did not work"
    return "" if part.useful(bench) else f"{bench.flow.name} does not need it, or has nothing to try it with"
