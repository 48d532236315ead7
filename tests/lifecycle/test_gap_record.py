"""Why a gap is there, as far as a topic's settings tell."""

from __future__ import annotations

import pytest

from twinlog.cluster.values import ConfigSource, ConfigValue
from twinlog.formats.ledger.records import GapCause
from twinlog.lifecycle.records import deletion_cause

NOW = 1_000_000


@pytest.mark.parametrize(
    ("settings", "newest", "cause"),
    [
        ({"retention.ms": "1000", "retention.bytes": "-1"}, NOW - 2_000, GapCause.RETENTION),
        ({"retention.ms": "1000", "retention.bytes": "-1"}, NOW - 500, GapCause.DELETE_RECORDS),
        ({"retention.ms": "1000", "retention.bytes": "-1"}, None, GapCause.RETENTION),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, NOW - 2_000, GapCause.DELETE_RECORDS),
        ({"retention.ms": "-1", "retention.bytes": "100"}, NOW, GapCause.RETENTION),
        ({"cleanup.policy": "compact", "retention.ms": "1000"}, NOW - 2_000, GapCause.DELETE_RECORDS),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, NOW - 2_000, GapCause.RETENTION),
        ({}, NOW, GapCause.RETENTION),
    ],
)
def test_delete_records_is_said_only_when_retention_cannot_have_been_it(settings, newest, cause) -> None:
    """In doubt it was retention."""
    configs = {name: ConfigValue(name, value, ConfigSource.TOPIC) for name, value in settings.items()}
    assert cause == deletion_cause(configs, newest, NOW)


@pytest.mark.parametrize(
    ("size", "newest", "cause"),
    [
        (None, NOW, GapCause.RETENTION),
        (100, NOW, GapCause.RETENTION),
        (99, NOW, GapCause.DELETE_RECORDS),
        (99, NOW - 2_000, GapCause.RETENTION),
    ],
)
def test_a_log_below_its_limit_was_not_cut_to_it(size, newest, cause) -> None:
    """Retention by size leaves as many bytes as it may keep."""
    settings = {"retention.ms": "1000", "retention.bytes": "100"}
    configs = {name: ConfigValue(name, value, ConfigSource.TOPIC) for name, value in settings.items()}
    assert cause == deletion_cause(configs, newest, NOW, size)
