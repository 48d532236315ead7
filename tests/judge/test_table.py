"""The gate's checks: named once, documented, and none holds of what is not known."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.errors import ConfigError
from twinlog.fact import Unknown
from twinlog.judge.check import Severity, Use, judge
from twinlog.judge.observed import OF_ENGINE
from twinlog.judge.table import CHECKS, TABLE, asked, refuse_unknown

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
ROWS = [
    (re.findall(r"`([a-z-]+)`", names), severity, modes)
    for names, severity, modes in re.findall(
        r"^\| (`[^|]+) \| (critical|warning) \| ([^|]+) \|", PAGE, re.MULTILINE
    )
]
DOCUMENTED = {name: (severity, modes) for names, severity, modes in ROWS for name in names}


GATE = (Use.PLANNED, Use.STILL_WRITING, Use.SOURCE_DEAD)


def severities(use: Use, *blocking: str) -> dict[str, Severity]:
    return {check.name: check.severity for suite in asked(use, blocking) for check in suite.checks}


def test_every_check_is_documented():
    """With its severity, which is the same whatever the gate is asked for; and no other is."""
    for use in GATE:
        assert (
            severities(use).items() <= {name: severity for name, (severity, _) in DOCUMENTED.items()}.items()
        )
    assert set(DOCUMENTED) == set(CHECKS)


def test_uses_are_documented():
    """P planned, S only without --still-writing, C with a canary, D source-dead."""
    planned, writing, dead = map(severities, GATE)
    for name, (_, modes) in DOCUMENTED.items():
        assert (bool(set("PSC") & set(modes)), "S" not in modes and set(modes) != {"D"}, "D" in modes) == (
            name in planned,
            name in writing,
            name in dead,
        ), name


def test_a_name_stands_once_and_each_check_is_asked():
    """A misspelt letter would ask nothing; in a cycle a failure means at most what it means to a failover."""
    every = [check for suite in TABLE for check in suite.checks]
    assert len(every) == len({check.name for check in every})
    for check in every:
        assert set(check.uses) <= set("Fw-") and set(check.uses) != {"-"} and 4 == len(check.uses)


def test_a_configuration_raises_warnings():
    """And nothing else."""
    before, after = severities(Use.PLANNED), severities(Use.PLANNED, "free-disk")
    assert {"free-disk": Severity.CRITICAL} == {
        name: after[name] for name in after if after[name] != before[name]
    }


@pytest.mark.parametrize("use", Use, ids=lambda it: it.value)
def test_no_check_holds_of_what_is_not_known(use):
    """Whatever one of its columns is worth: unknown, or forgotten by those who make the rows."""
    for suite in asked(use):
        identity = dict.fromkeys(suite.identity, "it")
        for check in suite.checks:
            for column in check.columns:
                others = dict.fromkeys(check.columns, 0) | {column: Unknown("hidden")}
                for row in (identity | others, identity | {it: 0 for it in check.columns if it != column}):
                    (result,) = judge(replace(suite, checks=(check,)), [row]).results
                    assert (check.name, False) == (result.name, result.passed)


def test_unknown_names_are_refused():
    """They would silently block, or waive, nothing."""
    refuse_unknown(["nothing-blocked", "lag-records"], "here")
    with pytest.raises(ConfigError, match="here: 'lag' is no check of the gate"):
        refuse_unknown(["lag"], "here")


def test_no_advice_about_another_engines_copy_is_for_a_copy_of_ours():
    """Such a flow is neither audited, rebuilt, resumed nor set; each advice of its own is of a check that there is."""
    names = {check.name for suite in TABLE for check in suite.checks}
    ours = re.compile(
        "`twinlog (audit|resume|topics rebuild|metadata schemas)|twinlog\\.(on|group)|more lanes|audit the"
    )
    assert set() == set(OF_ENGINE) - names
    advice = {
        check.name: check.advice
        for use in Use
        for suite in asked(use, observed=True)
        for check in suite.checks
    }
    assert {} == {
        name: text
        for name, text in advice.items()
        if ours.search(text) and name not in {"audit-equal", "flow-not-paused"}
    }
    assert advice["copy-there"] != CHECKS["copy-there"].advice
