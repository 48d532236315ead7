"""Read the keys `transforms.*` and `predicates.*` by Kafka Connect's rules (ConnectorConfig of Kafka 4.3.1).  Pure.

What Connect's own transforms cannot do with bytes is refused: MM2 would stop at the first record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java
from twinlog.transforms import chain

TRANSFORMS, PREDICATES = "transforms", "predicates"
PACKAGE = "org.apache.kafka.connect.transforms."

_FIELDS = "it works on the fields of a struct or map, and MM2's keys and values are bytes"
_NOT_BYTES = "what it makes is no longer bytes, which MM2's ByteArrayConverter refuses"
_ROUTED = "the offset map and MM2's offset syncs follow one copy for each topic"
_BY_POLICY = "name copies with replication.policy.class"

_TWICE = {
    "Cast": _NOT_BYTES,
    "ExtractField": _FIELDS,
    "Flatten": _FIELDS,
    "HeaderFrom": _FIELDS,
    "HoistField": _NOT_BYTES,
    "InsertField": _FIELDS,
    "MaskField": _FIELDS,
    "ReplaceField": _FIELDS,
    "SetSchemaMetadata": "it fails on every schema that is not a struct's, and MM2's keys and values are bytes",
    "TimestampConverter": "it works on fields or timestamps, and MM2's keys and values are bytes",
}
"""Transforms with a variant for keys and one for values, and why none can work on bytes."""

_REFUSED = {
    **{f"{name}${part}": why for name, why in _TWICE.items() for part in ("Key", "Value")},
    "ValueToKey": _FIELDS,
    "InsertHeader": "the header that it inserts is not bytes, which MM2's ByteArrayConverter refuses",
    "RegexRouter": _ROUTED,
    "TimestampRouter": _ROUTED,
}
_HINTS = {"RegexRouter": _BY_POLICY, "TimestampRouter": _BY_POLICY}
_WORKS = "Filter and DropHeaders work on bytes"

_OF_ALL = {
    TRANSFORMS: ("type", "predicate", "negate", "plugin.version"),
    PREDICATES: ("type", "plugin.version"),
}
_OF_CLASS = {
    "Filter": (),
    "DropHeaders": ("headers",),
    "RecordIsTombstone": (),
    "HasHeaderKey": ("name",),
    "TopicNameMatches": ("pattern",),
}
"""The keys below a name: those that each transform or predicate has, and those of a class."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the value of `key`; one that is not `fatal` has no effect on what is copied."""

    key: str
    message: str
    hint: str = ""
    fatal: bool = True


def read_steps(
    transforms: Sequence[str], predicates: Sequence[str], properties: Mapping[str, str]
) -> tuple[tuple[chain.Step, ...], tuple[Mistake, ...]]:
    """Return the steps that a file describes, and its mistakes; with a fatal one the steps say nothing.

    `transforms` and `predicates` are the listed names, `properties` the texts of all keys below these two.
    """
    reading = _Reading(properties)
    reading.names(TRANSFORMS, transforms)
    reading.names(PREDICATES, predicates)
    known = {name: reading.predicate(name) for name in dict.fromkeys(predicates)}
    steps = [step for name in dict.fromkeys(transforms) for step in reading.steps(name, known)]
    for listed, names in ((TRANSFORMS, transforms), (PREDICATES, predicates)):
        reading.unknown(listed, names)
    reading.unused(transforms, predicates)
    return tuple(steps), tuple(reading.mistakes)


class _Reading:
    """Reads the parts of a chain, and gathers the mistakes."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self.mistakes: list[Mistake] = []
        self._used: set[str] = set()

    def names(self, key: str, names: Sequence[str]) -> None:
        """Check that no name is listed twice."""
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            self._refuse(key, f"names {', '.join(twice)} twice")

    def predicate(self, name: str) -> chain.Predicate | None:
        """Read a predicate; None if it has a mistake."""
        prefix = f"{PREDICATES}.{name}."
        kind = self._required(f"{prefix}type", PREDICATES)
        match kind.removeprefix(f"{PACKAGE}predicates."):
            case "":
                return None
            case "RecordIsTombstone":
                return chain.RecordIsTombstone()
            case "HasHeaderKey":
                header = self._required(f"{prefix}name", PREDICATES)
                return chain.HasHeaderKey(header) if header else None
            case "TopicNameMatches":
                return self._topics(f"{prefix}pattern")
        known = "RecordIsTombstone, HasHeaderKey and TopicNameMatches can be used"
        self._refuse(f"{prefix}type", f"{kind} is no predicate of Kafka Connect", known)
        return None

    def _topics(self, key: str) -> chain.TopicNameMatches | None:
        pattern = self._required(key, PREDICATES)
        try:
            compile_java(pattern)
        except ConfigError as error:
            self._refuse(key, error.message, error.hint)
            return None
        return chain.TopicNameMatches(pattern) if pattern else None

    def steps(self, name: str, predicates: Mapping[str, chain.Predicate | None]) -> Iterator[chain.Step]:
        """Yield the step of a transform; none for one with a mistake."""
        prefix = f"{TRANSFORMS}.{name}."
        transform = self._transform(prefix)
        negate = self._negate(prefix)
        predicate = None
        chosen = f"{prefix}predicate"
        if chosen in self._properties:
            alias = self._properties[chosen]
            self._used.add(alias)
            if alias not in predicates:
                self._refuse(chosen, f"{alias} is not listed in predicates", f"add it: predicates = {alias}")
            predicate = predicates.get(alias)
            if predicate is None:
                return  # its own mistake was reported
        if transform is not None:
            yield chain.Step(transform, predicate, negate)

    def _negate(self, prefix: str) -> bool:
        key = f"{prefix}negate"
        if key not in self._properties:
            return False
        if f"{prefix}predicate" not in self._properties:
            self._refuse(key, f"there is no {prefix}predicate to be negated")
        text = self._properties[key].lower()
        if text not in {"true", "false"}:
            self._refuse(key, f"{self._properties[key]!r} is neither true nor false")
        return text == "true"

    def _transform(self, prefix: str) -> chain.Filter | chain.DropHeaders | None:
        kind = self._required(f"{prefix}type", TRANSFORMS)
        name = kind.removeprefix(PACKAGE)
        match name:
            case "":
                return None
            case "Filter":
                return chain.Filter()
            case "DropHeaders":
                listed = self._required(f"{prefix}headers", TRANSFORMS).split(",")
                names = tuple(filter(None, map(str.strip, listed)))
                return chain.DropHeaders(names) if names else None
        if name in _REFUSED:
            why = _REFUSED[name]
            self._refuse(f"{prefix}type", f"{name} cannot be applied: {why}", _HINTS.get(name, _WORKS))
        elif name in _TWICE:
            self._refuse(f"{prefix}type", f"{name} is abstract", f"write {name}$Key or {name}$Value")
        else:
            self._refuse(f"{prefix}type", f"{kind} is no transform of Kafka Connect", _WORKS)
        return None

    def _required(self, key: str, listed: str) -> str:
        """Return a text; report, at the list that names it, that a key is missing or empty."""
        text = self._properties.get(key, "")
        if not text:
            at = key if key in self._properties else listed
            self._refuse(at, f"needs {key}" if at == listed else "is empty")
        return text

    def unknown(self, listed: str, names: Sequence[str]) -> None:
        """Refuse keys that a class does not have.  Connect ignores them: a Filter with `predicat` drops all records."""
        for name in dict.fromkeys(names):
            self._unknown(listed, name, [it for it in names if it.startswith(f"{name}.")])

    def _unknown(self, listed: str, name: str, longer: Sequence[str]) -> None:
        """Refuse them below one name; those below `longer` names are not its own."""
        prefix = f"{listed}.{name}."
        kind = self._properties.get(f"{prefix}type", "").rpartition(".")[2]
        if kind not in _OF_CLASS:
            return  # its own mistake was reported
        allowed = (*_OF_ALL[listed], *_OF_CLASS[kind])
        others = tuple(f"{listed}.{it}." for it in longer)
        for key in self._properties:
            part = key.removeprefix(prefix)
            if part != key and part not in allowed and not key.startswith(others):
                near = get_close_matches(part, allowed, 1)
                self._refuse(
                    key, f"is unknown to {kind}", f"did you mean {near[0]}?" if near else "remove it"
                )

    def unused(self, transforms: Sequence[str], predicates: Sequence[str]) -> None:
        """Warn of predicates that no transform uses, and of keys below a name that is not listed."""
        for name in dict.fromkeys(predicates):
            if name not in self._used:
                self._warn(PREDICATES, f"no transform uses the predicate {name}", "remove it")
        for listed, names in ((TRANSFORMS, transforms), (PREDICATES, predicates)):
            for key in self._properties:
                below = key.removeprefix(f"{listed}.")
                if below != key and not any(below.startswith(f"{name}.") for name in names):
                    self._warn(key, f"has no effect: {listed} does not list its name")

    def _refuse(self, key: str, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(key, message, hint))

    def _warn(self, key: str, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(key, message, hint, fatal=False))
