"""The settings of a flow's metadata sync, and of schema registries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from twinlog.config.file.keys import Key, Kind
from twinlog.config.file.providers import Secret
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.values import BOOLEAN, Value, choice, read_filter, section, setting
from twinlog.config.security.connection import Registries, RegistrySettings
from twinlog.policy.selection import NameFilter


class Profile(StrEnum):
    """The purpose of the target (`twinlog.metadata.profile`).

    `standby`: readers may read the copies, and values that people set on the target stay.  `promoted`: also all that
    producers need there.  `mm2`: what MirrorMaker 2 does.
    """

    STANDBY = "standby"
    PROMOTED = "promoted"
    MM2 = "mm2"


_REGISTRY = "schema.registry."
_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")


def _registries(read: Reader, _key: str) -> Registries | None:
    """Return both registries; None unless both have an address, or if one of them cannot be used."""
    source, target = (_registry(read, side) for side in ("source", "target"))
    return None if source is None or target is None else Registries(source, target)


def _registry(read: Reader, side: str) -> RegistrySettings | None:
    """Read the registry of one side: `A.schema.registry.url` reaches a flow as `source.cluster.schema.registry.url`."""
    key = f"{side}.cluster.{_REGISTRY}"
    address = f"{key}url"
    if not read.has(address):
        return None
    urls = tuple(url.rstrip("/") for url in read.names(address))
    if not urls or not (read.hidden(address) or all(_URL.fullmatch(url) for url in urls)):
        read.refuse(
            address,
            "is no address of a schema registry",
            "such as https://registry.example:8081; without a login",
        )
        return None
    login, token = f"{key}basic.auth.user.info", f"{key}bearer.auth.token"
    if read.has(login) and read.has(token):
        read.refuse(token, "is a second login beside basic.auth.user.info", "remove one of them")
    if read.has(login) and ":" not in read.text(login) and not read.unresolved(login):
        read.refuse(login, "is no NAME:PASSWORD", "write it as ${file:/path:key}")
    clear = any(url.lower().startswith("http:") for url in urls)
    for secret in filter(read.has, (login, token)):
        if clear:
            read.findings.warn(read.origin(secret), "crosses the network in clear", "use an https:// address")
    files = {name: f"{key}ssl.{name}.location" for name in ("ca", "certificate", "key")}
    if read.has(files["key"]) != read.has(files["certificate"]):
        given = files["key" if read.has(files["key"]) else "certificate"]
        read.refuse(given, "needs both ssl.certificate.location and ssl.key.location", "add the other one")
    return RegistrySettings(
        read.text(f"{side}.cluster.alias"),
        urls,
        Secret(read.text(login)) if read.has(login) else None,
        Secret(read.text(token)) if read.has(token) else None,
        **{name: read.text(it) if read.has(it) else "" for name, it in files.items()},
    )


def _subjects(read: Reader, key: str) -> NameFilter:
    """Read the patterns; without the key no subject is copied.  Both clusters need a registry then."""
    if not read.text(key):
        return NameFilter(())
    if read.text("enabled").lower() == "true":
        for side in ("source", "target"):
            alias = read.text(f"{side}.cluster.alias")
            if not read.has(f"{side}.cluster.{_REGISTRY}url"):
                read.refuse(key, f"{alias} has no schema registry", f"add {alias}.schema.registry.url")
    return read_filter(read, key)


@dataclass(frozen=True, slots=True)
class SchemasSettings:
    """Tell which subjects are copied from the source's schema registry to the target's, by their REST API."""

    subjects: NameFilter = setting(Value(Kind.LIST, _subjects), "twinlog.schemas.subjects", None)
    """subjects that are copied from the schema registry of the source to that of the target, as a list of regular
    expressions; both need `schema.registry.url`. Not given, none is ([schema registries](schema-registry.md))"""
    registries: Registries | None = setting(Value(Kind.LIST, _registries), "schema.registry.url", None)
    """addresses of the cluster's schema registry (Confluent's REST API), asked in their order until one answers:
    `https://registry:8081`"""
    _user_info: ClassVar = Key("schema.registry.basic.auth.user.info", Kind.STRING, None)
    """login, `NAME:PASSWORD`; a secret"""
    _token: ClassVar = Key("schema.registry.bearer.auth.token", Kind.STRING, None)
    """bearer token, instead of a login; a secret"""
    _ca: ClassVar = Key("schema.registry.ssl.ca.location", Kind.STRING, None)
    """PEM file of the certificates to be trusted; not given, the system's"""
    _certificate: ClassVar = Key("schema.registry.ssl.certificate.location", Kind.STRING, None)
    """PEM file of twinlog's own certificate (mutual TLS)"""
    _private_key: ClassVar = Key("schema.registry.ssl.key.location", Kind.STRING, None)
    """PEM file of its private key, without a password"""
    both_ways: bool = False
    """whether the reverse flow copies subjects, too; who reads the file knows"""

    @property
    def copied(self) -> bool:
        """Say whether any subjects are copied."""
        return self.registries is not None and bool(self.subjects.include)


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Tell which configs, ACLs and quotas are synced, and who approves it."""

    profile: Profile = setting(choice(Profile), "twinlog.metadata.profile", "standby")
    """role of the target: `standby`, `promoted`, or `mm2` (MM2's own rules); see [Metadata](metadata.md)"""
    approval: bool = setting(BOOLEAN, "twinlog.metadata.approval", "false")
    """whether a person applies each metadata plan: cycles and the Dag only make it"""
    quotas: bool = setting(BOOLEAN, "twinlog.sync.quotas.enabled", "false")
    """whether client quotas are synced; needs ALTER_CONFIGS on the target cluster"""
    schemas: SchemasSettings = section(SchemasSettings)
