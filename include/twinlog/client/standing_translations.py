"""Translate groups and times: for the command line, the Dag `translate_group` and programs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from twinlog.client.answers import Answer
from twinlog.client.group_positions import Groups, Standing, records_at, standing_at, standing_now
from twinlog.client.translator import FlowTranslator
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class Translated:
    """Answers in the order of the questions, `as_of_ms` as in Standing, and notes for people."""

    flow: str
    answers: tuple[Answer, ...]
    as_of_ms: tuple[int | None, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unanswered(self) -> tuple[Answer, ...]:
        """Return the questions without an answer: they must not be forgotten when the others are acted upon."""
        return tuple(it for it in self.answers if not it.answered)

    @property
    def complete(self) -> bool:
        """Say whether every question has an answer."""
        return not self.unanswered


def translate_groups(
    flow: FlowSettings, clusters: Clusters, groups: Groups, at_ms: int | None = None
) -> Translated:
    """Translate where groups stand now, or stood at a time as far as their checkpoints tell.

    Raises UsageError if nothing is known of the groups.
    """
    if at_ms is None:
        return translated(flow, clusters, standing_now(flow, clusters, groups))
    return translated(flow, clusters, standing_at(flow, clusters, groups, at_ms))


def translate_time(
    flow: FlowSettings, clusters: Clusters, at_ms: int, topics: Collection[str] | None = None
) -> Translated:
    """Translate the first record at or after a time, in every partition of the flow or of some source topics."""
    return translated(flow, clusters, records_at(flow, clusters, at_ms, topics))


def translated(flow: FlowSettings, clusters: Clusters, standing: Standing) -> Translated:
    """Answer all questions of a standing."""
    translator = FlowTranslator(flow, clusters)
    answers = (translator.reverse if standing.back else translator.translate)(standing.asks)
    return Translated(flow.name, answers, standing.as_of_ms, standing.notes)
