"""Compare the flow's own topics with what they must be like. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.cluster.values import Answers, Configs, TopicDescription, value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.state.internal_topics import (
    COMPACT,
    CUT_BY_OFFSET,
    DELETE_RETENTION,
    TOMBSTONES_KEPT_MS,
    InternalTopic,
)
from twinlog.visible import and_more


@dataclass(frozen=True, slots=True)
class InternalState:
    """The flow's own topics as they are on the target, and their configurations."""

    topics: Answers[str, TopicDescription]
    configs: Answers[str, Configs]


def unchecked(topics: Sequence[InternalTopic], state: InternalState) -> tuple[str, ...]:
    """Report in one line the topics of which nobody knows whether their records expire."""
    refused = [state.configs.refused[topic.name] for topic in topics if topic.name in state.configs.refused]
    if not refused:
        return ()
    return (f"cleanup.policy cannot be checked: {refused[0]}{and_more(len(refused))}",)


def check_cleanup(flow: FlowSettings, topic: InternalTopic, configs: Answers[str, Configs]) -> Iterable[str]:
    """Report a topic whose records expire; one whose configuration cannot be read is left to `unchecked`.

    Raises TerminalError `cleanup-policy` for a vital one.
    """
    if topic.name not in configs.found:
        return ()
    policy = configs.found[topic.name]["cleanup.policy"].value
    expires_not = all(value_of(configs.found[topic.name], name) == it for name, it in CUT_BY_OFFSET.items())
    if policy == COMPACT or topic.keeps_all or (topic.cut and expires_not):
        return ()
    message = f"topic {topic.name} on {flow.target.alias} has cleanup.policy={policy}, so its records expire"
    hint = f"set cleanup.policy={COMPACT} on it"
    if topic.vital:
        raise TerminalError(message, hint=hint, code="cleanup-policy", flow=flow.name, topic=topic.name)
    return (f"{message}; {hint}",)


def lacking(topic: InternalTopic, state: InternalState) -> Mapping[str, str]:
    """Return the settings its readers depend on that a topic lacks, being of an earlier release or of MM2."""
    kept = value_of(state.configs.found.get(topic.name, {}), DELETE_RETENTION)
    if topic.keeps_all or kept is None or int(kept) >= TOMBSTONES_KEPT_MS:
        return {}
    return {DELETE_RETENTION: str(TOMBSTONES_KEPT_MS)}
