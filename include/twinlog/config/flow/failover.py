"""The settings of a failover: how long it waits, and how clients are sent to the target (`twinlog.failover.*`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinlog.config.file.keys import Kind
from twinlog.config.file.providers import Secret
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.values import (
    CRON_OR_NEVER,
    NAMES,
    PATH,
    SECRET_ADDRESS,
    TEXT,
    optional,
    setting,
    whole,
)


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """Tell how long a failover waits, and how clients are sent to the target: by one hook at most."""

    wait_seconds: int = setting(whole(Kind.LONG, 0), "twinlog.failover.wait.seconds", "120")
    """how long a planned failover waits for producers to stop, and for groups to read to the end; then it says whom it
    waits for, and the next command goes on"""
    hook_command: str = setting(TEXT, "twinlog.failover.hook.command", None)
    """command that sends clients to the target after the promotion; it gets the event as JSON on stdin and in variables
    `TWINLOG_*` ([failover](failover.md#switching-clients)). At most one of the three hooks"""
    hook_url: Secret | None = setting(SECRET_ADDRESS, "twinlog.failover.hook.url", None)
    """address that gets the event as a POST with JSON; treated as a secret"""
    hook_file: Path | None = setting(PATH, "twinlog.failover.hook.file", None)
    """file into which the event is written: a Kubernetes ConfigMap if it ends in `.yaml` or `.yml`, else JSON"""
    stop_command: str = setting(TEXT, "twinlog.failover.stop.command", None)
    """command that stops the engine which copies an [observed](howto/migrate.md#fail-over) flow, before groups are
    placed; it is run as the hook's, with the event `stop`. `true` if a person has stopped it"""
    hook_seconds: int = 30
    """how long one attempt of the hook may take; a command is killed then"""
    hook_attempts: int = 3
    """how often the hook is tried before the step fails"""
    approvers: tuple[str, ...] = setting(NAMES, "twinlog.approvers", "")
    """who may say yes to a failover and to a way home, and [accept](gate.md#accepting) what stands against it: logins
    and Airflow's users. Empty: whoever may run it, and the evidence says so"""
    approvals_required: int = setting(whole(Kind.LONG, 1), "twinlog.approvals.required", "1")
    """how many persons have to say yes to the same cost of a failover or a way home: with 2, it waits for another one
    after the first"""
    drill_schedule: str = setting(CRON_OR_NEVER, "twinlog.drill.schedule", "never")
    """cron expression of the Dag `drill__A__B`, in UTC; or `never`: no such Dag, only by hand"""
    drill_age_seconds: int | None = setting(optional(Kind.LONG), "twinlog.drill.age.seconds", None)
    """how long ago the last [drill](drills.md) that passed may be; then an alarm is sent each day. Not given,
    nobody is told"""


def refuse_two_hooks(read: Reader, settings: FailoverSettings) -> None:
    """Report a second way to switch clients, by the key that is written in the file."""
    ways = {"command": settings.hook_command, "url": settings.hook_url, "file": settings.hook_file}
    chosen = [name for name, value in ways.items() if value]
    for name in chosen[1:]:
        message = f"is a second way to switch clients, beside twinlog.failover.hook.{chosen[0]}"
        read.refuse(f"twinlog.failover.hook.{name}", message, "leave one; a command can do several things")
