"""Copying subjects from one schema registry to another: against a registry in memory."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest
from fake_registry import FakeRegistry
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import ClusterRefused, TerminalError, TransientError
from twinlog.policy.selection import NameFilter
from twinlog.schemas import sync as schemas
from twinlog.schemas.apply import apply, release, to_release
from twinlog.schemas.plan import SchemaPlan, make_plan
from twinlog.schemas.sync import read_both

EVERY = NameFilter((".*",))


def record(name: str, *fields: str) -> str:
    """Return an Avro schema."""
    return json.dumps({
        "type": "record",
        "name": name,
        "fields": [{"name": it, "type": "int"} for it in fields],
    })


def plan_of(
    source: FakeRegistry, target: FakeRegistry, subjects: NameFilter = EVERY, *, claims: bool = True
) -> SchemaPlan:
    """Read both, and plan."""
    both = read_both(source.client("A"), target.client("B"), subjects)
    return make_plan(*both, "A", "B", claims=claims)


def sync(source: FakeRegistry, target: FakeRegistry, subjects: NameFilter = EVERY) -> SchemaPlan:
    """Plan and apply once; return the plan that was applied."""
    plan = plan_of(source, target, subjects)
    apply(plan, target.client("B"))
    return plan


@pytest.mark.parametrize(("pattern", "notes"), [("orders-.*", 0), ("odrers-.*", 1)])
def test_patterns_that_select_nothing_are_no_equality(
    flow, clusters, monkeypatch: pytest.MonkeyPatch, pattern: str, notes: int
) -> None:
    """A typing error would leave consumers without their schemas, and the gate would say that nothing differs."""
    source, target = FakeRegistry(), FakeRegistry()
    source.add("orders-value", record("orders"))
    sync(source, target)
    both = nullcontext((source.client("A"), target.client("B")))
    monkeypatch.setattr(schemas, "opened", lambda _: both)
    monkeypatch.setattr(schemas, "_registries", lambda _: None)
    chosen = replace(flow.metadata.schemas, subjects=NameFilter((pattern,)))
    found = schemas.look(replace(flow, metadata=replace(flow.metadata, schemas=chosen)), clusters)
    assert (not notes, notes) == (found.equal, len(found.notes))
    assert all(pattern in it for it in found.notes)


NAMES = ("a-value", "b-value", "c-value", "common")


@st.composite
def acts(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """What clients do to a registry: register, refer to what there is, soft-delete, set a level."""
    act = st.tuples(
        st.sampled_from(["add", "add", "add", "refer", "delete", "level"]),
        st.sampled_from(NAMES),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(NAMES),
    )
    return draw(st.lists(act, max_size=14))


def done(registry: FakeRegistry, todo: list[tuple[str, ...]]) -> None:
    """Do what can be done of a list of acts."""
    for what, name, word, other in todo:
        alive = [n for n, it in registry.subjects.get(other, {}).items() if not it["deleted"]]
        match what:
            case "add":
                registry.add(name, record(word))
            case "refer" if alive and name != other:
                registry.add(name, record(word, "more"), (other, alive[-1]))
            case "delete" if alive:
                registry.answer("DELETE", f"/subjects/{other}/versions/{alive[0]}", {}, None)
            case "level":
                registry.answer("PUT", f"/config/{name}", {}, {"compatibility": "FULL"})


class TestLaws:
    """What holds whatever two registries hold."""

    @given(acts(), acts())
    def test_once_makes_equal_and_a_second_time_finds_nothing(self, before, since) -> None:
        """Also if the source goes on in between: ids, numbers, contents, deletions and levels are the source's."""
        source, target = FakeRegistry(), FakeRegistry()
        for todo in (before, since):
            done(source, todo)
            sync(source, target)
            assert SchemaPlan() == plan_of(source, target)
            assert source.facts() == target.facts()
            copied = {name for name in source.subjects if source.subjects[name]}
            assert dict.fromkeys(copied, "READONLY") == target.own_modes
            assert {n: v for n, v in source.levels.items() if n in copied} == target.levels

    @given(acts(), acts())
    def test_what_the_target_has_is_never_changed(self, ours, theirs) -> None:
        """Whatever is in the way: every id and version there stays what it was, and the rest is equal or named."""
        source, target = FakeRegistry(), FakeRegistry()
        done(source, ours)
        done(target, theirs)
        ids, versions = dict(target.ids), {key: it[:2] for key, it in target.facts().items()}
        sync(source, target)
        assert ids == {number: it for number, it in target.ids.items() if number in ids}
        assert versions == {key: it[:2] for key, it in target.facts().items() if key in versions}
        again = plan_of(source, target)
        assert 0 == again.changes
        held = {it.subject for it in again.conflicts}
        ok = {key: it for key, it in source.facts().items() if key[0] not in held}
        assert ok == {key: it for key, it in target.facts().items() if key in ok}


class TestConflicts:
    """What is in the way is named, and left alone."""

    def test_an_id_that_another_schema_has(self) -> None:
        """Its subject and those that refer to it are held back; others are copied."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("common", record("x"))
        source.add("a-value", record("y"), ("common", 1))
        source.add("b-value", record("z"))
        target.add("own", record("q"))
        plan = sync(source, target)
        assert [("a-value", "schema-reference"), ("common", "schema-id-taken")] == [
            (it.subject, it.code) for it in plan.conflicts
        ]
        assert "id 1 of version 1 has another schema on B" == plan.conflicts[1].message
        assert {("own", 1), ("b-value", 1)} == set(target.facts())

    def test_a_version_with_another_content(self) -> None:
        """Nothing is written to that subject, not even a mode."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("a-value", record("x"))
        target.add("a-value", record("y"))
        before = target.facts()
        plan = sync(source, target)
        assert ["schema-version-taken"] == [it.code for it in plan.conflicts]
        assert (before, {}, 1) == (target.facts(), target.own_modes, len(target.asked))

    def test_a_version_that_only_the_target_has(self) -> None:
        """Somebody registered there: which side is right is for a person to say."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("a-value", record("x"))
        sync(source, target)
        target.own_modes.clear()
        target.add("a-value", record("y"))
        plan = sync(source, target)
        assert [("schema-only-there", "version 2 (id 2) is on B alone")] == [
            (it.code, it.message) for it in plan.conflicts
        ]

    def test_a_reference_to_a_subject_that_is_not_selected(self) -> None:
        """Unless the target has it already."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("common", record("x"))
        source.add("a-value", record("y"), ("common", 1))
        plan = sync(source, target, NameFilter(("a-.*",)))
        assert ["schema-reference"] == [it.code for it in plan.conflicts]
        sync(source, target)
        assert SchemaPlan() == plan_of(source, target, NameFilter(("a-.*",)))

    def test_a_copy_that_the_reverse_flow_brought_is_left_out(self) -> None:
        """Both flows may name the same subjects: where nobody may register is the copy."""
        a, b = FakeRegistry(), FakeRegistry()
        a.add("a-value", record("x"))
        sync(a, b)
        plan = sync(b, a)
        assert (["a-value"], 0, (), {}) == (
            [it.subject for it in plan.left_out],
            plan.changes,
            plan.conflicts,
            a.own_modes,
        )
        assert plan.equal

    def test_nobody_may_register_on_the_source_and_the_target_lacks_something(self) -> None:
        """Then it is not known which side is the copy."""
        a, b = FakeRegistry(), FakeRegistry()
        a.add("a-value", record("x"))
        sync(a, b)
        a.add("a-value", record("y"))
        a.own_modes["a-value"], b.own_modes["a-value"] = "READONLY", "READWRITE"
        assert ["schema-read-only"] == [it.code for it in sync(a, b).conflicts]

    def test_the_compatibility_of_the_registry_is_told_and_left(self) -> None:
        """It is no subject's: a person sets it."""
        source, target = FakeRegistry(), FakeRegistry(level="FULL")
        source.add("a-value", record("x"))
        plan = sync(source, target)
        assert (
            "the compatibility of all subjects is BACKWARD on A, FULL on B; a person sets it (PUT /config)",
        ) == (plan.notes)
        assert (False, "FULL") == (plan_of(source, target).equal, target.level)


class TestRegistriesThatKeepNoIds:
    """They are noticed before anything wrong stays there."""

    def test_one_that_knows_no_modes(self) -> None:
        """As Apicurio 3.0: nothing is asked to change."""
        source, target = FakeRegistry(), FakeRegistry(modes=False)
        source.add("a-value", record("x"))
        with pytest.raises(TerminalError) as caught:
            sync(source, target)
        assert ("schema-modes", []) == (caught.value.code, target.asked)

    def test_one_that_says_import_and_gives_its_own(self) -> None:
        """As Apicurio 3.3: what came with another id is deleted again, modes are as before, the rest is not tried."""
        source, target = FakeRegistry(), FakeRegistry(imports=False)
        source.ids[41] = "gone"
        for name in NAMES:
            source.add(name, record(name))
        with pytest.raises(TerminalError) as caught:
            sync(source, target)
        assert "schema-ids" == caught.value.code
        assert (
            "the schema registry of B gave id 1 to version 1 of a-value, which has id 42"
            in caught.value.message
        )
        assert ({}, {}, {}) == (target.facts(), target.own_modes, target.ids)
        assert 1 == sum(method == "POST" for method, _ in target.asked)

    def test_one_whose_own_ids_are_the_same(self) -> None:
        """An empty target that counts as the source did: each id is compared."""
        source, target = FakeRegistry(), FakeRegistry(imports=False)
        for name in NAMES:
            source.add(name, record(name))
        sync(source, target)
        assert source.facts() == target.facts()
        assert plan_of(source, target).equal


class TestStopped:
    """A sync that ends half-way goes on the next time."""

    @pytest.mark.parametrize("at", range(1, 12))
    def test_at_any_request(self, at: int) -> None:
        """The registry is gone for good after some changes; what is there is right, and the next sync does the rest."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("common", record("x"))
        source.add("a-value", record("y"), ("common", 1))
        source.answer("PUT", "/config/a-value", {}, {"compatibility": "FULL"})

        def gone(method: str, _path: str) -> None:
            if method != "GET" and len(target.asked) >= at:
                raise TransientError("gone")

        target.before = gone
        with suppress(TransientError):
            sync(source, target)
        assert all(source.facts()[key] == it for key, it in target.facts().items())
        target.before = lambda _method, _path: None
        sync(source, target)
        assert (True, source.facts()) == (plan_of(source, target).equal, target.facts())

    def test_a_refusal_leaves_copies_read_only_and_others_as_they_were(self) -> None:
        """And is told with the registry's own words."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("a-value", record("x"))
        sync(source, target)
        source.add("a-value", record("y"))
        source.add("b-value", record("z"))
        plan = plan_of(source, target)
        target.ids[2] = "taken meanwhile"
        with pytest.raises(ClusterRefused, match="Overwrite new schema with id 2 is not permitted"):
            apply(plan, target.client("B"))
        assert {"a-value": "READONLY"} == target.own_modes


class TestPromotion:
    """Clients register on a promoted target."""

    def test_copies_become_writable_and_others_are_left(self) -> None:
        """Again and again with the same result."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("a-value", record("x"))
        source.add("b-value", record("y"))
        sync(source, target)
        target.own_modes["b-value"] = "IMPORT"  # a sync was killed
        target.own_modes["own"] = "READONLY"
        for expected in (2, 0):
            registry = target.client("B")
            changes = to_release(registry, NameFilter((".*-value",)))
            release(registry, changes)
            assert expected == len(changes)
        assert {"a-value": "READWRITE", "b-value": "READWRITE", "own": "READONLY"} == target.own_modes
        target.add("a-value", record("z"))

    @pytest.mark.parametrize("answers", [[True], [False, True]])
    def test_a_sync_that_the_promotion_overtakes_leaves_them_writable(self, answers: list[bool]) -> None:
        """It looks before it sets READONLY, and after."""
        source, target = FakeRegistry(), FakeRegistry()
        source.add("a-value", record("x"))
        apply(plan_of(source, target), target.client("B"), lambda: answers.pop(0))
        assert {"a-value": "READWRITE"} == target.own_modes

    def test_both_flows_follow(self) -> None:
        """Each brings what the other side lacks; what clients may register to on both sides neither takes."""
        a, b = FakeRegistry(), FakeRegistry()
        a.add("a-value", record("x"))
        b.ids[7] = "its ids begin elsewhere"
        b.add("b-value", record("y"))
        for registry in (a, b):
            registry.level = "NONE"
        apply(plan_of(a, b, claims=False), b.client("B"))
        apply(plan_of(b, a, claims=False), a.client("A"))
        for source, target, mode in ((a, b, {"a-value": "READONLY"}), (b, a, {"b-value": "READONLY"})):
            plan = plan_of(source, target, claims=False)
            assert (0, (), mode) == (plan.changes, plan.conflicts, target.own_modes)
        a.own_modes.clear()
        assert [("b-value", "schema-both-sides")] == [
            (it.subject, it.code) for it in plan_of(b, a, claims=False).conflicts
        ]

    def test_there_and_back(self) -> None:
        """What clients register on B after a failover comes home with its id, and then A is written to again."""
        a, b = FakeRegistry(), FakeRegistry()
        a.add("a-value", record("x"))
        sync(a, b)
        release(b.client("B"), to_release(b.client("B"), EVERY))
        b.add("a-value", record("y"))
        sync(b, a)
        assert (a.facts(), {"a-value": "READONLY"}) == (b.facts(), a.own_modes)
        release(a.client("A"), to_release(a.client("A"), EVERY))
        a.add("a-value", record("z"))
        sync(a, b)
        assert (a.facts(), {"a-value": "READONLY"}) == (b.facts(), b.own_modes)
