"""Which users get credentials, and whose the target lacks."""

from dataclasses import replace

from twinlog.cluster.admin.access_values import ScramCredential
from twinlog.config.file.providers import Secret
from twinlog.config.flow.metadata import DeclaredUser, MetadataSettings
from twinlog.metadata.scram_plan import given, plan_scram, undeclared
from twinlog.metadata.values import ScramChange

LONG = ScramCredential("SCRAM-SHA-512", 8192)
JO = DeclaredUser("jo", Secret("hunter2"), iterations=8192)
SHORT = ScramCredential("SCRAM-SHA-512", 4096)


def declaring(flow, *users: DeclaredUser):
    return replace(flow, metadata=MetadataSettings(scram_users=users))


def test_declared_users_get_what_is_declared(flow):
    """A missing credential, or one with other iterations; nothing where it is there, as twinlog gave it."""
    flow = declaring(flow, JO)
    made = ScramChange("jo", LONG, None)
    known = given(flow, [made], 1)
    assert (made,) == plan_scram(flow, {}, {}, known).changes
    assert (ScramChange("jo", LONG, 4096),) == plan_scram(flow, {}, {"jo": (SHORT,)}, known).changes
    assert () == plan_scram(flow, {}, {"jo": (LONG,)}, known).changes


def test_a_secret_that_changed_or_is_not_known_is_given_again(flow):
    """The cluster shows the same credential as before; only what twinlog remembers tells."""
    renewal = ScramChange("jo", LONG, 8192, renews=True)
    known = given(declaring(flow, JO), [ScramChange("jo", LONG, None)], 1)
    rotated = declaring(flow, replace(JO, password=Secret("other")))
    there = {"jo": (LONG,)}
    assert (renewal,) == plan_scram(rotated, {}, there, known).changes
    assert (renewal,) == plan_scram(declaring(flow, JO), {}, there, ()).changes
    assert () == plan_scram(rotated, {}, there, given(rotated, [renewal], 2)).changes


def test_a_print_tells_nothing_of_the_secret(flow):
    """Two prints of one secret differ, and neither has it; of who is no longer declared none is kept."""
    flow = declaring(flow, JO)
    one, two = (given(flow, [ScramChange("jo", LONG, None)], 1)[0] for _ in range(2))
    assert one.print != two.print
    assert all(b"hunter2" not in it.value() for it in (one, two))
    assert ((), (one,)) == (undeclared(flow, [one]), undeclared(declaring(flow), [one]))


def test_users_of_the_source_without_a_login_on_the_target_are_drift(flow):
    """Not those who are declared; a source that does not tell is no reason for drift."""
    flow = declaring(flow, DeclaredUser("jo", Secret("x")))
    plan = plan_scram(flow, {"jo": (LONG,), "ann": (SHORT,), "bo": (LONG,)}, {"bo": (SHORT,)})
    assert [("user ann", None), ("user bo", "4096 iterations")] == [
        (it.resource, it.target) for it in plan.drift
    ]
    assert () == plan_scram(flow, None, {}).drift
