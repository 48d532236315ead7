"""Define a key of the file: its name, type, default and meaning, and where it may stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Kind(StrEnum):
    """The type of a value, as Kafka's ConfigDef names them."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    LIST = "list"
    STRING = "string"
    CLASS = "class"


class Home(StrEnum):
    """Name where a key belongs, which decides how it reaches a flow."""

    CONNECTOR = "connector"  # top level, or per flow `A->B.key`
    FLOW_ONLY = "flow"  # per flow `A->B.key`; MM2 drops it at the top level
    WORKER = "worker"  # per target cluster `B.key`, or top level (which wins for the storage keys)
    CONSUMER = "consumer"  # `A.consumer.key`, or per flow `A->B.consumer.key`
    CLUSTER = "cluster"  # per cluster `A.key`
    OURS = "twinlog"  # top level, or per flow `A->B.twinlog.key`


_HOMES = {
    "twinlog.": Home.OURS,
    "consumer.": Home.CONSUMER,
    "offset.storage.": Home.WORKER,
    "schema.registry.": Home.CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key.  `default` is written as in a file, None if there is none.

    `limits` says in words which values of the type are allowed, "" for all.  What a key means stands below the field
    that is read from it.
    """

    name: str
    kind: Kind
    default: str | None
    limits: str = ""
    given_home: Home | None = None

    @property
    def home(self) -> Home:
        """Return where the key belongs: as its name says, unless another home is given."""
        found = (home for prefix, home in _HOMES.items() if self.name.startswith(prefix))
        return self.given_home or next(found, Home.CONNECTOR)


_TIER = re.compile(r"twinlog\.tier\.([A-Za-z0-9_-]+)\.(.+)")


def tier_key(name: str) -> tuple[str, str] | None:
    """Split a key of a tier into the tier's name and the key as it is declared; None for any other key."""
    found = _TIER.fullmatch(name)
    return (found[1], f"twinlog.tier.NAME.{found[2]}") if found else None


def declared_name(name: str) -> str:
    """Return the key as it is declared: of one with a tier's name in it, with NAME in its place."""
    tier = tier_key(name)
    return name if tier is None else tier[1]


_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|credential|jaas\.config|keystore\.key$|(?<!public)\.key$"
    r"|api\.?key|token$|token\.value|user\.info$|alert\.url$|hook\.(url|command)$",
    re.IGNORECASE,
)
_PUBLIC = "sasl.oauthbearer.client.credentials.client.id"


@lru_cache(10_000)
def is_secret(key: str) -> bool:
    """Say whether values of this key are never shown: Kafka's PASSWORD types and keys that sound like one."""
    return bool(_SECRET.search(key)) and not key.endswith(_PUBLIC)


_WHOLE = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str) -> int:
    """Read digits with or without a sign; other texts that Python's int accepts raise ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)
