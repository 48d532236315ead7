"""Compare the topics named with --topics with those a flow replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.errors import UsageError

if TYPE_CHECKING:
    from twinlog.topics.discovery import Discovery


BY_COMMAS = "--topics takes names of source topics, comma separated"


def parse_topics(text: str | None) -> frozenset[str] | None:
    """Split `orders,payments`; None if no topic was named."""
    names = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    return names or None


def refuse_unknown_topics(discovery: Discovery, topics: frozenset[str] | None, hint: str = BY_COMMAS) -> None:
    """Raise UsageError for a named topic that the flow does not replicate, with the reason."""
    known = {topic.topic for topic in discovery.topics}
    reasons = {topic.topic: topic.reason for topic in discovery.left_out}
    for name in sorted((topics or frozenset()) - known):
        reason = reasons.get(name, "the source has no such topic, or does not show it")
        raise UsageError(
            f"flow {discovery.flow} does not replicate topic {name}: {reason}",
            hint=hint,
            flow=discovery.flow,
            topic=name,
        )
