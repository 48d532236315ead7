"""Explain a configuration: every value of a flow with its line or rule, and what happens to topics.

No secret reaches this module: values are masked when they are recorded (twinlog.config.flow.reader.shown).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinlog.config.file.java_keys import ROLE_KEYS
from twinlog.config.flow.flows import ResolvedFlow
from twinlog.config.flow.load import Resolution
from twinlog.config.flow.reader import UNRESOLVED
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.exposure import reach
from twinlog.errors import UsageError

_DECIDE_ABOUT_TOPICS = frozenset({
    "enabled",
    "topics",
    "topics.exclude",
    "topics.blacklist",
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "heartbeats.replication.enabled",
    "offset.storage.topic",
    "offsets.storage.topic",
    "twinlog.cycle.rule",
})


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """One value: its key, its result, where it was written (`mm2.properties:12`), and the rule that won.

    `place` and `written_as` are "" for a default.  Keys of clients start with alias and role.  `reaches` says which of
    twinlog's clients follow them (config/security/exposure.py), "" for every other key.
    """

    key: str
    value: str
    place: str
    written_as: str
    rule: str
    reaches: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedTopic:
    """A source topic: its name on the target, or why the flow leaves it out.

    `because` says why the flow copies it although its filters do not select it, "" if they do.
    """

    topic: str
    remote_topic: str | None
    left_out: str | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedFlow:
    """One flow.  A flow that is not enabled only writes heartbeats.

    `enabled` is also true if the value is not on this machine; `judged` says whether all that decides about topics is
    known.
    """

    flow: str
    enabled: bool
    values: tuple[ExplainedValue, ...]
    topics: tuple[ExplainedTopic, ...] = ()
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """A configuration file, explained.  `notes` are lines of the file without effect that are no mistakes.

    `unresolved` are lines whose value is not on this machine: it is shown as `[unresolved]` and nothing is judged by
    it.
    """

    file: str
    sha256: str
    clusters: tuple[str, ...]
    flows: tuple[ExplainedFlow, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    unresolved: tuple[str, ...] = ()


def explain(resolution: Resolution, names: Sequence[str] = (), topics: Iterable[str] = ()) -> Explanation:
    """Explain the named flows and what happens to these source topics.

    If no flow is named, explains all that copy or write heartbeats.  Raises UsageError if the file has no such flow.
    """
    configuration = resolution.configuration
    chosen = [_named(resolution, name) for name in dict.fromkeys(names)] or list(resolution.flows.values())
    judged = tuple(topics)
    return Explanation(
        file=str(configuration.path),
        sha256=configuration.sha256,
        clusters=tuple(configuration.clusters),
        flows=tuple(_explained(flow, judged) for flow in chosen),
        warnings=configuration.warnings,
        notes=resolution.notes,
        unresolved=resolution.unresolved,
    )


def explain_topics(flow: FlowSettings, topics: Iterable[str]) -> tuple[ExplainedTopic, ...]:
    """Return for each source topic its name on the target, or why it is left out."""
    return tuple(_fate(flow, topic) for topic in topics)


def _named(resolution: Resolution, name: str) -> ResolvedFlow:
    flow = resolution.flows.get(name)
    if flow is None:
        raise UsageError(
            f"{resolution.configuration.path} has no flow {name}",
            hint=f"its flows are: {', '.join(resolution.flows) or 'none'}",
            flow=name,
        )
    return flow


def _explained(flow: ResolvedFlow, topics: tuple[str, ...]) -> ExplainedFlow:
    values = tuple(
        ExplainedValue(
            value.key,
            value.shown,
            value.origin.place if value.origin.line else "",
            value.origin.key,
            value.origin.rule,
            _reaches(flow.settings, value.key),
        )
        for value in flow.values
    )
    settings = flow.settings
    judged = all(
        resolved.shown != UNRESOLVED for resolved in flow.values if resolved.key in _DECIDE_ABOUT_TOPICS
    )
    fates = explain_topics(settings, topics) if judged and settings.enabled else ()
    return ExplainedFlow(settings.name, settings.enabled, values, fates, judged)


def _reaches(flow: FlowSettings, label: str) -> str:
    """Say which clients follow `A consumer request.timeout.ms`; "" for a key that is no client property."""
    for alias, relay_role in ((flow.source.alias, "consumer"), (flow.target.alias, "producer")):
        role, _, key = label.removeprefix(f"{alias} ").partition(" ")
        if label.startswith(f"{alias} ") and role in ROLE_KEYS:
            return reach(role, key, relay_role)
    return ""


def _fate(flow: FlowSettings, topic: str) -> ExplainedTopic:
    reason = flow.why_left_out(topic)
    if reason is not None:
        return ExplainedTopic(topic, None, reason)
    selected = flow.topics.accepts(topic)
    because = "" if selected else "by its name a heartbeats topic (heartbeats.replication.enabled)"
    return ExplainedTopic(topic, flow.remote_name(topic), None, because)
