"""What `validate` answers."""

from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.config.flow.tiers import GateSettings
from twinlog.errors import UsageError
from twinlog.fact import Unknown
from twinlog.facts.observe import observe
from twinlog.formats.ledger.records import Incarnation
from twinlog.jsonable import to_json
from twinlog.judge import validate
from twinlog.judge.check import Use
from twinlog.judge.rows import age_of_beat
from twinlog.judge.table import asked
from twinlog.lifecycle import sync_topics
from twinlog.state.ledger import write_ledger
from twinlog.topics.snapshot import FlowSnapshot


def test_a_sound_copy_passes_every_check(flow, clusters, orders, copied):
    """Half-way through is sound, too, though what waits was written in 1970."""
    copied(orders, 0, 3)
    result = validate.run(flow, clusters)
    assert (True, 1, ["rpo-within-budget"]) == (
        result.success,
        result.partitions,
        [it.name for it in result.failed],
    )
    expected = [check.name for suite in asked(Use.CYCLE) for check in suite.checks]
    assert expected == [it.name for it in result.checks]


def test_a_truncated_copy_fails(flow, clusters, orders, copied, target):
    """The target lost records that the map says were written."""
    copied(orders, 0, 5)
    target.topics["A.orders"].logs[0].end = 3
    result = validate.run(flow, clusters)
    assert (False, ["copy-not-cut-off"]) == (result.success, [it.name for it in result.failed])
    assert "orders partition 0: target stable end 3, mapped downstream end 5" in result.failed[0].message


def test_records_copied_twice_fail(flow, clusters, orders, copied, target):
    """Progress set back and copied again: the map knows two places for them."""
    copied(orders, 0, 3)
    copied(orders, 2, 5)
    assert "nothing-copied-twice" in [it.name for it in validate.run(flow, clusters).failed]


def test_a_deleted_copy_fails(flow, clusters, orders, target):
    """A topic without its copy is not a replicated topic."""
    sync_topics.run(flow, clusters)
    del target.topics["A.orders"]
    assert ["nothing-blocked"] == [it.name for it in validate.run(flow, clusters).failed]


def test_a_topic_born_during_the_cycle_is_not_judged(flow, clusters, orders, source, copied):
    """The next cycle gives it its copy."""
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    source.add_topic("newborn")
    assert () == validate.run(flow, clusters).failed


def test_a_blocked_topic_fails(flow, clusters, orders, target):
    """It is named with its reason."""
    write_ledger(flow, target, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    result = validate.run(flow, clusters)
    assert (False, "orders: blocked 1") == (result.success, result.failed[0].observed)
    assert "created again" in result.failed[0].message


def test_the_result_is_json(flow, clusters, orders):
    """Name, severity, passed, observed, expected, message, and where it failed."""
    assert {"name", "severity", "passed", "observed", "expected", "message", "subjects"} == set(
        to_json(validate.run(flow, clusters))["checks"][1]
    )


def test_great_expectations_says_the_same_and_leaves_its_pages(
    flow, clusters, orders, copied, target, tmp_path
):
    """Check by check; a page per suite and an index, in the flow's folder of reports."""
    copied(orders, 0, 5)
    target.topics["A.orders"].logs[0].end = 3
    flow = replace(flow, gate=GateSettings(reports=tmp_path))
    facts = observe(FlowSnapshot(flow, clusters))
    with_pages = validate.judge_with_pages(flow, facts, "manual__1/2")
    assert validate.judge(flow, facts).checks == with_pages.checks
    index = Path(with_pages.data_docs)
    assert tmp_path / "A__B" / "validate" == index.parents[1]
    assert {"index.html", "blocked.html", "partitions.html", "topics.html", "flow.html"} == {
        it.name for it in index.parent.iterdir()
    }
    assert "copy-not-cut-off (critical)" in index.read_text()


def test_without_great_expectations_it_is_one_line(flow, clusters, orders, monkeypatch):
    """Airflow's `validate` says what to install; without pages the same facts are judged all the same."""
    monkeypatch.setattr("twinlog.judge.great_expectations.find_spec", {}.get)
    facts = observe(FlowSnapshot(flow, clusters))
    with pytest.raises(UsageError, match=r"is not installed.*pip install 'twinlog\[gate\] @ file:") as error:
        validate.judge_with_pages(flow, facts, "manual__1")
    assert (2, "not-installed") == (error.value.exit_code, error.value.code)
    assert validate.judge(flow, facts).checks


def test_a_beat_that_has_yet_to_come_has_no_age():
    """Its clock is ahead: it would stay young until then."""
    ages = [age_of_beat(beat_ms, 100_000) for beat_ms in (None, 99_000, 160_000, 160_001)]
    expected = [
        Unknown("no heartbeat was copied"),
        1.0,
        0.0,
        Unknown("the newest heartbeat is from the future"),
    ]
    assert expected == ages
