"""The gate's page: what forbids it comes first, names are escaped, nothing is asked of anybody."""

import re

from twinlog.formats.ledger.accepted import Accepted, Offence
from twinlog.formats.ledger.observed import ObservedFinding
from twinlog.gate.answer import CoverageOf, GateResult, GroupAtRisk, is_ready, waived_by, weigh
from twinlog.gate.record import duration, page_of, share
from twinlog.judge.at_risk import TopicAtRisk
from twinlog.judge.check import CheckResult, Mode, Seen, Severity
from twinlog.judge.observed import WHAT_TO_DO
from twinlog.observe.observed_copy import ObservedCopy, ObservedTopic

NOW = 1_700_000_000_000
GAPS = (Offence("logs", None, 1),)


def result(**changes) -> GateResult:
    results = [
        CheckResult(
            "lag-records", Severity.CRITICAL, False, "<b>x</b>", "lag <= 0", "not so <b>x</b>", ("<b>x</b>",)
        ),
        CheckResult("no-gaps", Severity.CRITICAL, False, "gaps", "gaps = 0", "gaps there", ("logs",), GAPS),
        CheckResult("free-disk", Severity.WARNING, False, "full", "free >= 10", "disk is short"),
        CheckResult("map-known", Severity.CRITICAL, True, "as expected", "known", "the map is known"),
    ]
    waivers = [
        Accepted("no-gaps", "logs", "nobody reads it", "jo", "a login", NOW, NOW + 1, 1),
        Accepted("lag-records", "", "was fine", "jo", "a login", NOW - 2, NOW - 1, 1),
    ]
    checks = weigh(results, waivers, {Seen.NOW: 0.0}, NOW)
    fields = {
        "ready": is_ready(checks),
        "checks": checks,
        "waivers": tuple(waived_by(it, NOW) for it in waivers),
        "topics": (
            TopicAtRisk("orders", "gold", 5, None, 90.0, 30, moving=True, drift=("retention.ms: 1",)),
        ),
        "groups": (GroupAtRisk("billing", None),),
        "coverage": (CoverageOf("orders", 1000, 999, 1, None, 1000, 99),),
    }
    asked = {"flow": "A->B", "mode": Mode.PLANNED, "at_ms": NOW, "still_writing": False}
    return GateResult(**(asked | fields | changes))


def test_what_forbids_it_comes_first():
    """Then what was accepted, by whom and why, then warnings, then the rest."""
    page = page_of(result(), evidence="e.json", signed_by="")
    titles = re.findall(r"<h2[^>]*>([^<]*?) <span>", page)
    assert ["Forbids a failover", "Accepted", "Only warns", "Holds"] == titles
    assert "A-&gt;B: NOT READY: lag-records; 5 records" in page
    assert "nobody reads it (jo, a login, until" in page
    assert "expired, does not count" in page
    assert "not signed" in page


def test_a_copy_of_another_engine_comes_before_all_else():
    """What is wrong with it by severity, each with its place and what to do; then what was compared, then groups."""
    orders = ObservedTopic(
        topic="orders",
        remote_topic="A.orders",
        partitions=1,
        equal=90,
        counts={"doubled": 10, "missing": 1},
        since_ms={"doubled": NOW, "missing": NOW},
        findings={"0": (ObservedFinding("doubled", (4, 14), (20, 30), 10, (), NOW),)},
        passed_over=0,
        open_records=0,
        indistinct=0,
        not_comparable=0,
        at_ms=NOW,
    )
    copy = ObservedCopy("other", (orders,), (), ("inventory",))
    page = page_of(result(observed=copy), evidence="e.json", signed_by="")
    parts = (
        *(
            "Copied by another engine",
            "Nobody copies",
            "inventory",
            ">missing<",
            WHAT_TO_DO["missing"],
            ">doubled<",
        ),
        *("source <code>4 to 13</code> copy <code>20 to 29</code>", WHAT_TO_DO["doubled"], "Compared so far"),
        "Forbids a failover",
    )
    places = [page.index(part) for part in parts]
    assert sorted(places) == places


def test_names_are_escaped():
    """A group may have any name."""
    assert "<b>x</b>" not in page_of(result(), evidence="e.json", signed_by="")


def test_a_page_needs_nothing_else():
    """No script, no address."""
    page = page_of(result(), evidence="e.json", signed_by="ab", data_docs="data-docs/index.html")
    assert ["data:,", "data-docs/index.html"] == re.findall(r'(?:src|href)="([^"]*)"', page)
    assert "<script" not in page and "url(" not in page


def test_ready_is_said():
    """And by whom it is signed."""
    page = page_of(result(ready=True, checks=result().checks[-1:]), evidence="e.json", signed_by="abc")
    assert "A-&gt;B: READY; 5 records" in page
    assert "<code>abc</code>" in page


def test_numbers_for_people():
    """Unknown is said; a share is never rounded up to all of it."""
    assert ["not known", "500 ms", "90 s", "2 min", "3 h", "3 d"] == [
        duration(it) for it in (None, 0.5, 90, 121, 10_800, 259_200)
    ]
    assert ["99.9 %", "100.0 %", "nothing"] == [share(9_999, 10_000), share(1, 1), share(0, 0)]


def test_the_first_line_has_verdict_reason_and_number():
    """What is not looked at is no number; what keeps every check from being asked is said once."""
    lines = [result().headline]
    lost = [
        CheckResult(name, Severity.CRITICAL, False, "", "", "not checked: A does not answer (refused)")
        for name in ("no-gaps", "map-known")
    ]
    lines.append(result(checks=weigh(lost, [], {}, NOW), topics=()).headline)
    assert [
        "NOT READY: lag-records; 5 records are missing on the target, more is not known",
        "NOT READY: not checked: A does not answer",
    ] == lines


def test_no_zero_of_records_that_nobody_looked_for():
    """What was named counts; where nothing was, the line says that it is not known."""
    blind = TopicAtRisk("pay", "gold", None, None, None, 30)
    assert result(topics=(blind,)).headline.endswith(
        "how many records are missing on the target is not known"
    )
    named = result(topics=(blind, TopicAtRisk("orders", "gold", 1, None, None, 30)))
    assert named.headline.endswith("; 1 record is missing on the target, more is not known")
    assert "at least not known" not in page_of(named, evidence="e.json", signed_by="")
