"""Which client quotas come to the target."""

from twinlog.cluster.admin.access_values import QuotaEntity
from twinlog.formats.ledger.metadata import QuotasSet
from twinlog.metadata.quota_plan import plan_quotas
from twinlog.metadata.values import QuotaChange

JO = QuotaEntity.of({"user": "jo"})
RATE = "producer_byte_rate"


def once(**quotas: float) -> list[QuotasSet]:
    return [QuotasSet({"user": "jo"}, quotas, 0)]


def test_quotas_follow_the_source(flow):
    """They come, change and go with it, each by itself."""
    assert (QuotaChange(JO, RATE, None, 5.0),) == plan_quotas(flow, {JO: {RATE: 5.0}}, {}, []).changes
    assert (QuotaChange(JO, RATE, 5.0, 6.0),) == (
        plan_quotas(flow, {JO: {RATE: 6.0}}, {JO: {RATE: 5.0}}, once(producer_byte_rate=5.0)).changes
    )
    assert (QuotaChange(JO, RATE, 5.0, None),) == (
        plan_quotas(flow, {}, {JO: {RATE: 5.0}}, once(producer_byte_rate=5.0)).changes
    )


def test_a_quota_of_the_targets_own_is_kept(flow):
    """Reported where the source has another one, and nobody's business where it has none."""
    plan = plan_quotas(flow, {JO: {RATE: 6.0}}, {JO: {RATE: 5.0}}, [])
    assert ((), [("user jo", "6", "5")]) == (
        plan.changes,
        [(it.resource, it.source, it.target) for it in plan.drift],
    )
    own = plan_quotas(flow, {}, {JO: {RATE: 5.0}}, [])
    assert ((), ()) == (own.changes, own.drift)


def test_agreement_is_remembered(flow):
    """Until both sides have none."""
    assert (QuotaChange(JO, RATE, 5.0, 5.0),) == (
        plan_quotas(flow, {JO: {RATE: 5.0}}, {JO: {RATE: 5.0}}, []).agreed
    )
    assert (QuotaChange(JO, RATE, None, None),) == (
        plan_quotas(flow, {}, {}, once(producer_byte_rate=5.0)).agreed
    )


def test_the_default_entity_reads_well(flow):
    """People see whom it is for."""
    entity = QuotaEntity.of({"user": None, "client-id": "app"})
    [change] = plan_quotas(flow, {entity: {RATE: 1048576.0}}, {}, []).changes
    assert ("client-id app, any user", "1048576") == (change.row.resource, change.row.after)
