"""The audit's schedule, and the user's own rules of the data: `twinlog.audit.*`, `twinlog.data.*`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twinlog.config.flow.reader import Reader
from twinlog.config.flow.settings import AuditSettings, DataRulesSettings, SampledSide
from twinlog.errors import ConfigError
from twinlog.policy.selection import NameFilter


def audit_settings(read: Reader, cron: Callable[[str], str]) -> AuditSettings:
    """Return the audit's settings; `cron` reads a cron expression."""
    return AuditSettings(schedule=cron("twinlog.audit.schedule"))


def data_rules_settings(read: Reader) -> DataRulesSettings:
    """Return the settings of the user's own rules."""
    suite = read.text("twinlog.data.quality.suite")
    return DataRulesSettings(
        suite=Path(suite) if suite else None,
        topics=_topics(read),
        sample_records=read.integer("twinlog.data.quality.sample.records", at_least=1),
        side=read.choice("twinlog.data.quality.side", SampledSide),
        stop=read.boolean("twinlog.data.quality.stop"),
    )


def _topics(read: Reader) -> NameFilter:
    try:
        return NameFilter(read.names("twinlog.data.quality.topics"))
    except ConfigError as error:
        read.refuse("twinlog.data.quality.topics", error.message, error.hint)
        return NameFilter(())
