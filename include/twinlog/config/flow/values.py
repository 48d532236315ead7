"""Declare a setting on the field that holds it: its key, type, default, limits and meaning, once.

`setting` makes a dataclass field that knows its key.  From these fields the file is read (`read_settings`), unknown
keys are told from known ones (known_keys.py), and the tables of docs/configuration.md are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from twinlog import clock
from twinlog.config.file.keys import Home, Key, Kind
from twinlog.config.file.origin import Findings
from twinlog.config.file.providers import Providers, Secret
from twinlog.config.flow.reader import INT_MAX, LONG_MAX, Reader
from twinlog.errors import ConfigError
from twinlog.policy.load import policy_from_config
from twinlog.policy.replication import DefaultReplicationPolicy, ReplicationPolicy
from twinlog.policy.selection import NameFilter

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

CONTINUOUS = "@continuous"
"""The schedule of a Dag whose runs follow each other (Airflow's ContinuousTimetable)."""

_SETTING, _SECTION = "setting", "section"
AUTO = "auto"
"""The warm server of `twinlog machine spark start` if it can be used, else ALONE."""

ALONE = "local[2]"
SPARK_MASTER = re.compile(r"auto|local(\[.+\])?|spark://.+|sc://.+|k8s://.+|yarn")
MASTERS = "such as local[2], spark://host:7077 or sc://host:15002"

NEVER = "never"
"""The schedule of what is never done by itself."""

_CRON = re.compile(r"[0-9*/,A-Za-z?#-]+( [0-9*/,A-Za-z?#-]+){4}")


class Compression(StrEnum):
    """Name the codec of copied batches, with the words of Kafka's `compression.type` of a topic."""

    PRODUCER = "producer"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Isolation(StrEnum):
    """Name what is read, with the words of Kafka's `isolation.level` of a consumer."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class OffsetReset(StrEnum):
    """Name where reading begins, with the words of Kafka's `auto.offset.reset` of a consumer."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A type of values: Kafka's name for it, how it is read, and which values are allowed, in words."""

    kind: Kind
    read: Callable[[Reader, str], T]
    limits: str = ""


@dataclass(frozen=True, slots=True)
class Declared(Generic[T]):
    """Tell how one field is read: a type of values, and the key that names it."""

    value: Value[T]
    key: Key

    def read(self, read: Reader) -> T:
        """Return the field's value; a mistake goes to the reader's findings."""
        return self.value.read(read, self.key.name)


def setting(
    value: Value[T], key: str, default: str | None, *, home: Home | None = None, initial: Any = MISSING
) -> T:
    """Declare a field that is read from `key`; what it means stands below it.

    The field's own default is what a file without the key gives, unless `initial` says otherwise.
    """
    declared = Declared(value, Key(key, value.kind, default, value.limits, home))
    if initial is MISSING:
        initial = declared.read(Reader({}, Providers({}), Findings(""), {key: declared.key}))
    made: T = field(default=initial, metadata={_SETTING: declared})
    return made


def section(kind: type[T]) -> T:
    """Declare a field that holds a section of settings."""
    made: T = field(default_factory=kind, metadata={_SECTION: kind})
    return made


def sections(kind: type[T]) -> tuple[T, ...]:
    """Declare a field that holds any number of sections, one by default; who reads the file knows how many."""
    made: tuple[T, ...] = field(default=(kind(),), metadata={_SECTION: kind})
    return made


def made_of(kind: type[Any], initial: T) -> T:
    """Declare a field that is made of the keys of a class; who reads the file makes it."""
    made: T = field(default=initial, metadata={_SECTION: kind})
    return made


@cache
def declared_in(kind: type[Any]) -> Mapping[str, Declared[Any]]:
    """Return the declarations of a class of settings, by field, without those of its sections."""
    return {it.name: it.metadata[_SETTING] for it in fields(kind) if _SETTING in it.metadata}


def keys_of(kind: type[Any]) -> Iterator[tuple[type[Any], str, Key]]:
    """Yield the keys of a class of settings and of its sections, as they stand there, each with its class and name.

    A key that only says more about a field is a ClassVar below it.
    """
    known: Mapping[str, Mapping[Any, Any]] = {it.name: it.metadata for it in fields(kind)}
    for name in kind.__annotations__:
        found = known.get(name, {})
        if _SETTING in found:
            yield kind, name, found[_SETTING].key
        elif _SECTION in found:
            yield from keys_of(found[_SECTION])
        elif isinstance(key := vars(kind).get(name), Key):
            yield kind, name, key


def read_settings(kind: type[T], read: Reader, **known: Any) -> T:
    """Read every declared field; `known` are the others, and those that the caller has read."""
    found = {name: it.read(read) for name, it in declared_in(kind).items() if name not in known}  # type: ignore[arg-type]
    for each in fields(kind):  # type: ignore[arg-type]
        if _SECTION in each.metadata and each.name not in known:
            found[each.name] = read_settings(each.metadata[_SECTION], read)
    return kind(**found, **known)


# --- types of values ----------------------------------------------------------------------------------------


def whole(kind: Kind, at_least: int | None = None, also: int | None = None) -> Value[int]:
    """Return the type of whole numbers."""

    def read(reader: Reader, key: str) -> int:
        return reader.integer(key, at_least=at_least, also=also, most=_most(kind)) or 0

    return Value(kind, read, _limits(at_least, also))


def optional(kind: Kind) -> Value[int | None]:
    """Return the type of whole numbers above 0 that need not be given."""
    return Value(kind, lambda read, key: read.integer(key, at_least=1, most=_most(kind)), _limits(1, None))


def choice(kind: type[Choice]) -> Value[Choice]:
    """Return the type of the values of an enumeration."""
    return Value(Kind.STRING, lambda read, key: read.choice(key, kind), f"one of {', '.join(kind)}")


def chosen(member: StrEnum) -> Value[bool]:
    """Return the type of the values of an enumeration, of which only one makes a difference."""
    kind = type(member)
    return Value(Kind.STRING, lambda read, key: read.choice(key, kind) is member, f"one of {', '.join(kind)}")


def _delete_after(text: str) -> int | None:
    if text == "keep":
        return None
    named, _, time = text.partition(":")
    if named != "delete-after" or (seconds := clock.duration_seconds(time, "mhd")) is None:
        raise ValueError
    return seconds * 1000


DELETE_AFTER: Value[int | None] = Value(
    Kind.STRING,
    lambda read, key: read.parsed(
        key, _delete_after, "is neither keep nor delete-after:TIME, such as delete-after:7d"
    ),
)
"""The type of `keep` and of `delete-after:TIME`, in ms."""


def name_filter(exclude: str = "", renamed: str = "") -> Value[NameFilter]:
    """Return the type of lists of patterns, with the key of the list that wins over it, and that key's older name."""
    return Value(Kind.LIST, lambda read, key: read_filter(read, key, exclude, renamed))


def read_filter(read: Reader, include_key: str, exclude_key: str = "", renamed: str = "") -> NameFilter:
    """Read a filter; without a key, everything is included, or nothing excluded."""
    if read.has(renamed) and not read.has(exclude_key):
        exclude_key = renamed
    include = _patterns(read, include_key) if include_key else (".*",)
    exclude = _patterns(read, exclude_key) if exclude_key else ()
    return NameFilter() if include is None or exclude is None else NameFilter(include, exclude)


def _patterns(read: Reader, key: str) -> tuple[str, ...] | None:
    """Read a list and compile it by itself, so that a bad pattern is reported with the line of its own list."""
    patterns = read.names(key)
    try:
        NameFilter(patterns)
    except ConfigError as error:
        message = "a pattern is no Java regular expression" if read.hidden(key) else error.message
        read.refuse(key, message, error.hint)
        return None
    return patterns


def _seconds(read: Reader, key: str) -> int:
    """Read an interval; a negative one switches off what it is for (MM2's Scheduler), and counts as the default."""
    seconds = read.integer(key)
    if seconds == 0:
        read.refuse(key, "0 is no interval", "set a number of seconds, or a negative one to switch it off")
    return seconds if seconds is not None and seconds > 0 else int(read.default(key) or 0)


def _switched_on(read: Reader, key: str) -> bool:
    """Say whether `x.enabled` is true and `x.interval.seconds` is not negative, which disables (MM2's Scheduler)."""
    interval = f"{key.removesuffix('enabled')}interval.seconds"
    return read.boolean(key) and (read.integer(interval) or 0) >= 0


def _cron(read: Reader, key: str) -> str:
    schedule = " ".join(read.text(key).split())
    if read.has(key) and not _is_cron(schedule):
        read.refuse(
            key, f"{read.trace[key].shown!r} is no cron expression of five fields", "e.g. */5 * * * *"
        )
    return schedule


def _is_cron(text: str) -> bool:
    """Say whether Airflow will take it: five fields (croniter knows more forms), each within its range."""
    if not _CRON.fullmatch(text):
        return False
    from croniter import croniter  # 0.1 s, which a file without a schedule does not pay

    return bool(croniter.is_valid(text))


def _cron_or(word: str) -> Value[str]:
    return Value(Kind.STRING, lambda read, key: word if read.text(key).strip() == word else _cron(read, key))


def _path(read: Reader, key: str) -> Path | None:
    return Path(text) if (text := read.text(key)) else None


def _percent(read: Reader, key: str) -> int | None:
    percent = read.integer(key, at_least=0, most=INT_MAX)
    if percent is not None and percent > 100:
        read.refuse(key, f"{percent} is more than 100 percent")
        return 100
    return percent


def _address(read: Reader, key: str) -> Secret | None:
    url = read.text(key)
    if url.lower().startswith("http:"):
        read.findings.warn(read.origin(key), "alarms cross the network in clear", "use an https:// address")
    return Secret(url) if url else None


def _spark_master(read: Reader, key: str) -> str:
    master = read.text(key)
    if not SPARK_MASTER.fullmatch(master):
        # The value is not shown: the address of a Connect server may hold a token.
        read.refuse(key, "is no Spark master", MASTERS)
    return master


def _is_true(read: Reader, key: str) -> bool:
    """Read a boolean as Java's parseBoolean does: anything but "true" is false (pairs.py warns about it)."""
    return read.text(key).lower() == "true" or read.unresolved(key)


def _refresh_topics(read: Reader, key: str) -> bool:
    """Read the switch; only the sign of the interval counts, since each cycle looks anyway."""
    interval = "refresh.topics.interval.seconds"
    if read.has(interval) and _seconds(read, interval) == read.integer(interval):
        read.note(interval, "has no effect: each cycle looks for new topics; only a negative one counts")
    return _switched_on(read, key)


def _policy(read: Reader, key: str) -> ReplicationPolicy:
    name = read.text(key)
    read.text("replication.policy.separator")
    read.boolean("replication.policy.internal.topic.separator.enabled")
    properties = read.below("replication.policy", "source.cluster.alias", "target.cluster.alias")
    try:
        return policy_from_config(name, properties, read.text("source.cluster.alias"))
    except ConfigError as error:
        key = str(error.data.get("key", key))
        message = "names no policy that can be used" if read.hidden(key) else error.message
        read.refuse(key, message.removeprefix(f"{key}: "), error.hint)
        return DefaultReplicationPolicy()


def _offsets_topic(read: Reader, key: str) -> str:
    """Prefer the connector's own offsets topic (KIP-618) to the worker's; "" means MM2's default name."""
    own, worker = read.text("offsets.storage.topic"), read.text(key)
    return own or (worker if read.origin(key).line else "")


def _most(kind: Kind) -> int:
    return INT_MAX if kind is Kind.INT else LONG_MAX


def _limits(at_least: int | None, also: int | None) -> str:
    least = "" if at_least is None else f"at least {at_least}"
    return least if also is None else f"{least}, or {also}"


BOOLEAN = Value(Kind.BOOLEAN, Reader.boolean)
TEXT = Value(Kind.STRING, Reader.text)
NAMES = Value(Kind.LIST, Reader.names)
PATTERNS = name_filter()
PATH = Value(Kind.STRING, _path)
SECRET_ADDRESS = Value(Kind.STRING, _address)
SWITCH = Value(Kind.BOOLEAN, _switched_on)
SECONDS = Value(Kind.LONG, _seconds, "not 0")
CRON = Value(Kind.STRING, _cron)
CRON_OR_NEVER, SCHEDULE = _cron_or(NEVER), _cron_or(CONTINUOUS)
IS_TRUE = Value(Kind.BOOLEAN, _is_true)
REFRESH_TOPICS = Value(Kind.BOOLEAN, _refresh_topics)
POLICY = Value(Kind.CLASS, _policy)
OFFSETS_TOPIC = Value(Kind.STRING, _offsets_topic)
CONNECTOR_NAME = Value(Kind.STRING, lambda read, key: read.text("twinlog.connector.name") or read.text(key))
EXCLUDED_CONFIGS = Value(
    Kind.LIST, lambda read, key: read_filter(read, "", key, "config.properties.blacklist")
)
MASTER = Value(Kind.STRING, _spark_master)
PERCENT = Value(Kind.INT, _percent, "0 to 100")
POSITIVE_INT, POSITIVE_LONG = whole(Kind.INT, 1), whole(Kind.LONG, 1)
FACTOR = whole(Kind.INT, 1, also=-1)
