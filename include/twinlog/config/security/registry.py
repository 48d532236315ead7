"""Reach and log in to the schema registry beside a cluster: `A.schema.registry.*`, named as Confluent's clients do."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.config.file.providers import Secret


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """One schema registry that speaks Confluent's REST API.

    `alias` is its cluster's, for messages.  `urls` are asked in their order until one answers.  At most one of
    `user_info` (`name:password`) and `token` is given.  `ca`, `certificate` and `key` are paths of PEM files, "" for
    the system's certificates and for no certificate of one's own.
    """

    alias: str
    urls: tuple[str, ...] = field(repr=False)
    user_info: Secret | None = None
    token: Secret | None = None
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        """Return how messages call it."""
        return f"the schema registry of {self.alias}"


@dataclass(frozen=True, slots=True)
class Registries:
    """The schema registries of a flow's two clusters."""

    source: RegistrySettings
    target: RegistrySettings
