"""Connections are kept from one question to the next."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterUnreachable
from twinlog.protocol import kept_brokers
from twinlog.protocol.kept_brokers import REST_SECONDS, KeptBrokers


class TestKeptBrokers:
    """Connections outlive a question."""

    def test_the_next_question_has_the_same_connections(self) -> None:
        """Two at once have different ones, and after an error they are not used again."""
        kept = KeptBrokers(ConnectionSettings("A", ()))
        with kept.lent() as first, kept.lent() as second:
            assert first is not second
        with kept.lent() as again:
            assert again is first
        with pytest.raises(ClusterUnreachable), kept.lent() as lost:
            raise ClusterUnreachable("gone", cluster="A")
        with kept.lent() as other:
            assert lost is first
            assert other is second

    def test_what_rested_for_long_is_not_used_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A firewall may have forgotten it."""
        kept = KeptBrokers(ConnectionSettings("A", ()))
        with kept.lent() as first:
            pass
        later = time.monotonic() + REST_SECONDS
        monkeypatch.setattr(kept_brokers, "time", SimpleNamespace(monotonic=lambda: later))
        with kept.lent() as other:
            assert other is not first
