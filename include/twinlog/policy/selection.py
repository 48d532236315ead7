"""Select the topics and groups of a flow by MM2's lists and rules, and say why others are left out."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field

import regex

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java, matches
from twinlog.policy.replication import IdentityReplicationPolicy, ReplicationPolicy

LONGEST_NAME = 1000
"""Characters of a name that is matched.  Kafka's topics have at most 249; a client may name a group with 32,767."""


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accept a name if the include list matches it as a whole and the exclude list does not.

    Each list is joined with `|` into one Java regular expression, as MM2 does, so an inline flag such as `(?i)` in one
    element also applies to the elements after it.  An empty list matches nothing.  A name that is too long, or that
    takes too long to match, is neither included nor accepted, and counts as excluded.  Raises ConfigError, naming the
    element, for an element that is not a Java regex or cannot be given the same meaning here.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    _included: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile both lists once: thousands of elements are matched against thousands of names."""
        object.__setattr__(self, "_included", _compile(self.include))
        object.__setattr__(self, "_excluded", _compile(self.exclude))

    def accepts(self, name: str) -> bool:
        """Say whether both lists accept `name`."""
        return self.includes(name) and not self.excludes(name)

    def includes(self, name: str) -> bool:
        """Say whether the include list matches `name`."""
        return _says(self._included, name) is True

    def excludes(self, name: str) -> bool:
        """Say whether the exclude list matches `name`."""
        return _says(self._excluded, name) is not False

    def undecided(self, name: str) -> bool:
        """Say whether `name` is too long, or takes too long to match."""
        return _says(self._included, name) is None or _says(self._excluded, name) is None

    def why_unsure(self, name: str) -> str:
        """Say why `name` may be meant, and is not accepted; "" if there is no doubt."""
        if self.undecided(name):
            return f"its name is longer than {LONGEST_NAME} characters, or takes too long to match"
        one_line = _LINE_END.sub(" ", name)
        if (
            one_line != name
            and self.accepts(one_line)
            and not self.includes(name)
            and not self.excludes(name)
        ):
            return (
                "its name has a line end, which `.` of a Java pattern does not match: name it, or write (?s)"
            )
        return ""


_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")


def _says(pattern: regex.Pattern[str] | None, name: str) -> bool | None:
    if pattern is None:
        return False
    return matches(pattern, name) if len(name) <= LONGEST_NAME else None


def _compile(patterns: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Compile the joined expression; if that fails, raise the error of the faulty element, which is in the file."""
    if not patterns:
        return None
    try:
        return compile_java("|".join(patterns))
    except ConfigError:
        for pattern in patterns:
            compile_java(pattern)
        raise


_DRILLED = re.compile(r"drill-\d{8}T\d{6}Z-[0-9a-f]{6}-.*", re.DOTALL)


def is_drilled(group: str) -> bool:
    """Say whether a group is the clone that a drill makes of another one: no flow passes its positions on."""
    return _DRILLED.fullmatch(group) is not None


# The state topics of Connect's worker and of twinlog keep their dots whatever the policy's separator, and then
# its rule for internal names misses them.  A flow must never copy a flow's state or quarantined records.
_STATE_TOPIC = re.compile(
    r"mm2-(offsets|status|configs|offset-map|ledger|quarantine|tail|transactions)\..*\.internal", re.DOTALL
)


def why_left_out(
    topic: str,
    *,
    topics: NameFilter,
    policy: ReplicationPolicy,
    source_alias: str,
    target_alias: str,
    heartbeats_replication: bool,
    cycle_rule: str,
    progress_topics: Container[str] = (),
) -> str | None:
    """Return why the flow does not replicate `topic` of the source, as text for people; None if it does.

    With `heartbeats_replication`, heartbeats pass the filter, but not the rules on internal topics and cycles.
    `cycle_rule` is "mm2-4.3" or "mm2-4.4".  `progress_topics` hold flows' progress under names that users chose: if
    such a topic were copied, the copying itself would make it grow, in both directions and for ever.
    """
    if is_internal(topic, policy):
        return "internal topic"
    if topic in progress_topics:
        return "holds the progress of a flow (offset.storage.topic)"
    through = cycle_alias(
        topic, policy=policy, source_alias=source_alias, target_alias=target_alias, cycle_rule=cycle_rule
    )
    if through is not None:
        return f"cycle: by its name it came through {through}"
    if heartbeats_replication and policy.is_heartbeats_topic(topic):
        return None
    return _why_filtered(topic, topics)


def _why_filtered(topic: str, topics: NameFilter) -> str | None:
    if topics.accepts(topic):
        return None
    if topics.undecided(topic):
        return "the patterns of topics and topics.exclude take too long to match it"
    included = topics.includes(topic)
    return "a pattern of topics.exclude matches it" if included else "no pattern of topics matches it"


def is_internal(topic: str, policy: ReplicationPolicy) -> bool:
    """Say whether `topic` is internal by the policy, or holds a flow's state."""
    return policy.is_internal_topic(topic) or _STATE_TOPIC.fullmatch(topic) is not None


def cycle_alias(
    topic: str, *, policy: ReplicationPolicy, source_alias: str, target_alias: str, cycle_rule: str
) -> str | None:
    """Return the hop that makes `topic` a cycle: the target's alias, in any of the hops that its name shows.

    "mm2-4.4" also refuses the source's own alias (KAFKA 4.4), unless names show no hops (identity policy).
    """
    forbidden = {target_alias}
    if cycle_rule == "mm2-4.4" and not isinstance(policy, IdentityReplicationPolicy):
        forbidden.add(source_alias)
    seen: set[str] = set()  # a custom policy may lead in circles
    hop: str | None = topic
    while hop is not None and hop not in seen:
        source = policy.topic_source(hop)
        if source is None:
            return None
        if source in forbidden:
            return source
        seen.add(hop)
        hop = policy.upstream_topic(hop)
    return None
