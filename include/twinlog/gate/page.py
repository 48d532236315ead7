"""The gate's answer as an HTML page: one file that needs no other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, Template

from twinlog.checks.check import Severity
from twinlog.checks.unproved import told
from twinlog.gate.answer import GateCheck, GateResult

UNKNOWN = "not known"


def page_of(result: GateResult, *, evidence: str, signed_by: str, data_docs: str = "") -> str:
    """Draw the page.

    `evidence` is the file's name.  `signed_by` is the key's digest, "" if the evidence is not signed.
    """
    return _template().render(
        result=result,
        sections=[
            (title, tone, checks)
            for title, tone, checks in (
                ("Forbids a failover", "bad", [it for it in result.checks if it.blocks]),
                ("Waived", "bad", [it for it in result.checks if it.waived]),
                ("Worth a look", "warn", list(_warnings(result.checks))),
                ("Holds", "good", [it for it in result.checks if it.passed]),
            )
            if checks
        ],
        evidence=evidence,
        signed_by=signed_by,
        data_docs=data_docs,
    )


def _warnings(checks: Iterable[GateCheck]) -> Iterable[GateCheck]:
    return (it for it in checks if not it.passed and not it.waived and it.severity is Severity.WARNING)


def moment(milliseconds: int) -> str:
    """Write a time."""
    return f"{dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float | None) -> str:
    """Write a span of time, or that it is unknown."""
    if seconds is None:
        return UNKNOWN
    for limit, length, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def number(count: int | None) -> str:
    """Write a count, or that it is unknown."""
    return UNKNOWN if count is None else f"{count:,}"


def share(part: int, whole: int) -> str:
    """Write a share in percent; a rounded share never becomes 100 %, nor does a share of nothing."""
    return f"{int(1000 * part / whole) / 10:.1f} %" if whole else "nothing"


@cache
def _template() -> Template:
    # Topics and groups may have any name: everything is escaped.
    text = files(__package__).joinpath("gate_page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"moment": moment, "duration": duration, "number": number, "why": told}
    environment.globals["share"] = share
    return environment.from_string(text)
