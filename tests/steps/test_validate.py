"""What `validate` answers."""

from twinlog.cluster.ledger import write_ledger
from twinlog.formats.ledger import Incarnation
from twinlog.jsonable import to_json
from twinlog.quality.checks import PARTITION_CHECKS
from twinlog.steps import sync_topics, validate


def test_a_sound_copy_passes_every_check(flow, clusters, orders, copied):
    """Half-way through is sound, too."""
    copied(orders, 0, 3)
    result = validate.run(flow, clusters)
    assert (True, 1, ()) == (result.success, result.partitions, result.failed)
    assert ["nothing-blocked", *(check.name for check in PARTITION_CHECKS)] == [
        it.name for it in result.checks
    ]


def test_a_truncated_copy_fails(flow, clusters, orders, copied, target):
    """The target lost records that the map says were written."""
    copied(orders, 0, 5)
    target.topics["A.orders"].logs[0].end = 3
    result = validate.run(flow, clusters)
    assert (False, ["copy-not-cut-off"]) == (result.success, [it.name for it in result.failed])
    assert "orders partition 0: target_stable_end 3, mapped_downstream_end 5" in result.failed[0].message


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


def test_a_topic_born_during_the_cycle_is_not_judged(flow, clusters, orders, source):
    """The next cycle gives it its copy."""
    sync_topics.run(flow, clusters)
    source.add_topic("newborn")
    assert () == validate.run(flow, clusters).failed


def test_a_blocked_topic_fails(flow, clusters, orders, target):
    """It is named with its reason."""
    write_ledger(flow, target, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    result = validate.run(flow, clusters)
    assert (False, "orders") == (result.success, result.failed[0].observed)
    assert "created again" in result.failed[0].message


def test_the_result_is_json(flow, clusters, orders):
    """Name, severity, passed, observed, expected, message."""
    assert {"name", "severity", "passed", "observed", "expected", "message"} == set(
        to_json(validate.run(flow, clusters))["checks"][1]
    )
