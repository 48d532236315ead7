"""Encode every record of the ledger (twinlog.formats.ledger.records defines them)."""

from __future__ import annotations

from typing import ClassVar

from twinlog.formats.mm2.connect_offset import json_bytes
from twinlog.jsonable import to_json

VERSION = 1

LEDGER_PARTITION = 0
"""The one partition that holds the whole ledger, so that its records have an order."""


class LedgerEntry:
    """Base of all kinds of records: a kind has a name, and some of its fields identify a record."""

    __slots__ = ()
    KIND: ClassVar[str]
    IDENTITY: ClassVar[tuple[str, ...]] = ()

    def key(self) -> bytes:
        """Encode the key."""
        return json_bytes([self.KIND, *(getattr(self, name) for name in self.IDENTITY)])

    def value(self) -> bytes:
        """Encode the value."""
        return json_bytes({"version": VERSION, **to_json(self)})
