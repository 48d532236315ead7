"""The settings of a flow's metadata sync, and the users that `twinlog.scram.users` declares."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.config.file.keys import Kind
from twinlog.config.file.origin import Property
from twinlog.config.file.providers import Secret
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.values import BOOLEAN, Value, choice, setting
from twinlog.errors import ConfigError

DEFAULT_MECHANISM = "SCRAM-SHA-512"
DEFAULT_ITERATIONS = 4096
"""Kafka's smallest and default number of iterations (ScramMechanism)."""

_BETWEEN_USERS = re.compile(r",(?![^{}]*\})")
_USER = re.compile(
    r"(?P<name>[^=,:]+)(:(?P<mechanism>SCRAM-SHA-(256|512)))?(:(?P<iterations>\d+))?=(?P<password>.+)"
)
_FORM = "write NAME=${file:/path:key}, or NAME:SCRAM-SHA-512:8192=..., with commas between users"


class Profile(StrEnum):
    """The purpose of the target (`twinlog.metadata.profile`).

    `standby`: readers may read the copies, and values that people set on the target stay.  `promoted`: also all that
    producers need there.  `mm2`: what MirrorMaker 2 does.
    """

    STANDBY = "standby"
    PROMOTED = "promoted"
    MM2 = "mm2"


@dataclass(frozen=True, slots=True)
class DeclaredUser:
    """A user of `twinlog.scram.users`, who is to be able to log in on the target."""

    name: str
    password: Secret = field(repr=False)
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = DEFAULT_ITERATIONS


def _scram_users(read: Reader, key: str) -> tuple[DeclaredUser, ...]:
    """Split the list before references are replaced: a password may hold any character."""
    read.text(key)
    users: dict[tuple[str, str], DeclaredUser] = {}
    for part in filter(None, map(str.strip, _BETWEEN_USERS.split(read.written(key)))):
        found = _USER.fullmatch(part)
        if found is None:
            read.refuse(key, "names a user in no known form", _FORM)
            continue
        iterations = int(found["iterations"] or DEFAULT_ITERATIONS)
        if iterations < DEFAULT_ITERATIONS:
            read.refuse(key, f"{found['name']} has {iterations} iterations; Kafka takes 4096 or more")
            continue
        password = _password(read, key, found)
        user = DeclaredUser(
            found["name"].strip(), Secret(password), found["mechanism"] or DEFAULT_MECHANISM, iterations
        )
        if (user.name, user.mechanism) in users:
            read.refuse(key, f"names {user.name} twice with {user.mechanism}")
        users[user.name, user.mechanism] = user
    return tuple(users.values())


def _password(read: Reader, key: str, user: re.Match[str]) -> str:
    try:
        password = read.expand(Property(user["password"].strip(), read.origin(key)))
    except ConfigError:
        return ""  # reported already, when the key was read as a whole
    if not password:
        read.refuse(key, f"{user['name']} has an empty password", "check where its reference leads")
    return password


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Tell which configs, ACLs, quotas and users are synced, and who approves it."""

    profile: Profile = setting(choice(Profile), "twinlog.metadata.profile", "standby")
    """role of the target: `standby`, `promoted`, or `mm2` (MM2's own rules); see [Metadata](metadata.md)"""
    approval: bool = setting(BOOLEAN, "twinlog.metadata.approval", "false")
    """whether a person approves each metadata plan in Airflow before it is applied"""
    quotas: bool = setting(BOOLEAN, "twinlog.sync.quotas.enabled", "false")
    """whether client quotas are synced; needs ALTER_CONFIGS on the target cluster"""
    scram_users: tuple[DeclaredUser, ...] = setting(
        Value(Kind.LIST, _scram_users), "twinlog.scram.users", None
    )
    """users that shall be able to log in on the target: `alice=${file:/run/secrets/users:alice},
    bob:SCRAM-SHA-256:8192=${env:BOB}`; SCRAM-SHA-512 with 4096 iterations where nothing is said"""
