"""The limits that a flow promises, and how its gate judges: the tiers of topics, and `twinlog.gate.*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from twinlog.config.file.keys import tier_key
from twinlog.config.file.providers import Secret
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.settings import GateSettings, Tier
from twinlog.errors import ConfigError
from twinlog.policy.selection import NameFilter

HUNDRED_PERCENT = 100


def gate_settings(read: Reader, cron: Callable[[str], str]) -> GateSettings:
    """Return the gate's settings; `cron` reads a cron expression."""
    folder, key = read.text("twinlog.reports.folder"), read.text("twinlog.gate.sign.with")
    url = read.text("twinlog.alert.url")
    if url.lower().startswith("http:"):
        hint = "use an https:// address"
        read.findings.warn(read.origin("twinlog.alert.url"), "alarms cross the network in clear", hint)
    return GateSettings(
        fence_seconds=read.integer("twinlog.gate.fence.seconds", at_least=1),
        state_age_seconds=read.integer("twinlog.gate.state.age.seconds", at_least=1),
        audit_age_seconds=read.integer("twinlog.gate.audit.age.seconds", at_least=1),
        heartbeat_age_seconds=read.integer("twinlog.gate.heartbeat.age.seconds", at_least=1),
        undecided_seconds=read.integer("twinlog.undecided.seconds", at_least=1),
        canary_seconds=read.integer("twinlog.gate.canary.seconds", at_least=1),
        free_disk_percent=read.integer("twinlog.gate.free.disk.percent", at_least=0),
        schemas_topic=read.text("twinlog.gate.schemas.topic") or "",
        blocking=read.names("twinlog.gate.blocking"),
        schedule=cron("twinlog.gate.schedule"),
        reports=Path(folder) if folder else None,
        reports_kept=read.integer("twinlog.reports.kept", at_least=1),
        sign_with=Path(key) if key else None,
        alert_url=Secret(url) if url else None,
    )


def tiers(read: Reader, keys: Iterable[str], *, enabled: bool) -> tuple[Tier, ...]:
    """Return the tier of all other topics first, then the tiers that `keys` name, in order of name.

    A tier has the limits of all topics unless it sets its own.  If a flow is enabled, a tier without topics is a
    mistake; if it is not, the tier's topics may be written for another flow alone.
    """
    everything = Tier(
        rpo_seconds=read.integer("twinlog.rpo.seconds", at_least=1),
        lag_records=read.integer("twinlog.lag.records", at_least=0),
        audit_percent=_percent(read, "twinlog.audit.percent"),
    )
    names = sorted({found[0] for key in keys if (found := tier_key(key)) is not None})
    nameless = [name for name in names if not read.has(f"twinlog.tier.{name}.topics")]
    if nameless and enabled:
        read.findings.error(
            read.findings.missing(),
            f"tier {nameless[0]} names no topics",
            f"add a line such as twinlog.tier.{nameless[0]}.topics = orders, payments",
        )
    names = [name for name in names if name not in nameless]
    return (everything, *(_tier(read, name, everything) for name in names))


def _tier(read: Reader, name: str, otherwise: Tier) -> Tier:
    def number(key: str, default: int, at_least: int) -> int:
        found = read.optional_integer(f"twinlog.tier.{name}.{key}", at_least=at_least)
        return default if found is None else found

    percent = _percent(read, f"twinlog.tier.{name}.audit.percent")
    return Tier(
        name=name,
        topics=_topics(read, f"twinlog.tier.{name}.topics"),
        rpo_seconds=number("rpo.seconds", otherwise.rpo_seconds, 1),
        lag_records=number("lag.records", otherwise.lag_records, 0),
        audit_percent=otherwise.audit_percent if percent is None else percent,
    )


def _topics(read: Reader, key: str) -> NameFilter:
    try:
        return NameFilter(read.names(key))
    except ConfigError as error:
        read.refuse(key, error.message, error.hint)
        return NameFilter(())


def _percent(read: Reader, key: str) -> int | None:
    percent = read.optional_integer(key, at_least=0)
    if percent is not None and percent > HUNDRED_PERCENT:
        read.refuse(key, f"{percent} is more than {HUNDRED_PERCENT} percent")
        return HUNDRED_PERCENT
    return percent
