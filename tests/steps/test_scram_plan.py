"""Which users get credentials, and whose the target lacks."""

from dataclasses import replace

from twinlog.cluster.access_values import ScramCredential
from twinlog.config.metadata import DeclaredUser, MetadataSettings
from twinlog.config.secret import Secret
from twinlog.steps.metadata_plan import ScramChange
from twinlog.steps.scram_plan import plan_scram

LONG = ScramCredential("SCRAM-SHA-512", 8192)
SHORT = ScramCredential("SCRAM-SHA-512", 4096)


def declaring(flow, *users: DeclaredUser):
    return replace(flow, metadata=MetadataSettings(scram_users=users))


def test_declared_users_get_what_is_declared(flow):
    """A missing credential, or one with other iterations; nothing where it is there."""
    flow = declaring(flow, DeclaredUser("jo", Secret("x"), iterations=8192))
    assert (ScramChange("jo", LONG, None),) == plan_scram(flow, {}, {}).changes
    assert (ScramChange("jo", LONG, 4096),) == plan_scram(flow, {}, {"jo": (SHORT,)}).changes
    assert () == plan_scram(flow, {}, {"jo": (LONG,)}).changes


def test_users_of_the_source_without_a_login_on_the_target_are_drift(flow):
    """Not those who are declared; a source that does not tell is no reason for drift."""
    flow = declaring(flow, DeclaredUser("jo", Secret("x")))
    plan = plan_scram(flow, {"jo": (LONG,), "ann": (SHORT,), "bo": (LONG,)}, {"bo": (SHORT,)})
    assert [("user ann", None), ("user bo", "4096 iterations")] == [
        (it.resource, it.target) for it in plan.drift
    ]
    assert () == plan_scram(flow, None, {}).drift
