"""How a trial walks its parts (`run`, `bench`, `values`), without brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import ClusterRefused, ClusterUnreachable, TransientError
from twinlog.trial import run
from twinlog.trial.bench import Bench, Part
from twinlog.trial.parts import MAKE, PLACE, SOURCE, TARGET
from twinlog.trial.values import Answer, Tried, Without

WORKS, REFUSED, FAILED, NOT_TRIED = Answer


@pytest.fixture
def bench(flow: Any) -> Bench:
    cluster: Any = SimpleNamespace(alias="B")
    return Bench(flow, flow.target, cluster, cluster, "scratch", "clone", "")


def raises(error: BaseException) -> Any:
    def do(_: Bench) -> str:
        raise error

    return do


def part(name: str, do: Any = lambda _: "done", without: Without = Without.NOTHING, **more: Any) -> Part:
    return Part(name, without, do, **more)


class TestAPart:
    @pytest.mark.parametrize(
        ("error", "answer"),
        [
            (ClusterRefused("no", hint="grant it"), REFUSED),
            (TransientError("not now", hint="grant it"), FAILED),
        ],
    )
    def test_a_refusal_is_a_row_with_what_to_do(self, bench: Bench, error: Any, answer: Answer) -> None:
        """The trial goes on behind it."""
        row = run._try(bench, part("write", raises(error)))
        assert (answer, error.message, "grant it") == (row.answer, row.said, row.remedy)

    def test_a_part_behind_one_that_did_not_work_is_not_tried(self, bench: Bench) -> None:
        """Nor is one that the flow does not need."""
        run._try(bench, part("make", raises(ClusterRefused("no"))))
        row = run._try(bench, part("read", raises(AssertionError()), after=("make",)))
        assert (NOT_TRIED, "'make' did not work") == (row.answer, row.said)
        assert NOT_TRIED is run._try(bench, part("acls", useful=lambda _: False)).answer

    def test_a_cluster_that_does_not_answer_is_not_asked_again(self, bench: Bench) -> None:
        """Each question would be waited for."""
        assert FAILED is run._try(bench, part("make", raises(ClusterUnreachable("gone")))).answer
        assert NOT_TRIED is run._try(bench, part("disks", raises(AssertionError()))).answer


class TestTidying:
    @pytest.fixture
    def told(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Any:
        """`told(made)` tidies where this became of making; returns the rows, and what a person hears."""

        def tidied(made: Answer | None, error: Any) -> tuple[list[Tried], list[str]]:
            monkeypatch.setattr(run, "TIDY", {MAKE: part("delete", raises(error)), PLACE: part("clone")})
            if made is not None:
                bench.answers[MAKE] = made
            heard: list[str] = []
            return [*run._tidy(bench, heard.append)], heard

        return tidied

    def test_what_may_be_there_and_cannot_be_deleted_is_named(self, told: Any) -> None:
        """Also if nobody knows whether it was made."""
        (row,), heard = told(FAILED, ClusterRefused("B does not delete topic scratch", hint="grant DELETE"))
        assert REFUSED is row.answer
        assert ["B does not delete topic scratch" in it for it in heard] == [True]

    @pytest.mark.parametrize("made", [None, NOT_TRIED])
    def test_what_was_never_asked_for_is_not_deleted(self, told: Any, made: Answer | None) -> None:
        """It belongs to nobody."""
        assert ([], []) == told(made, AssertionError())

    def test_ctrl_c_in_a_part_still_deletes_what_it_may_have_made(self, bench: Bench) -> None:
        """The part is noted before it begins."""
        with pytest.raises(KeyboardInterrupt):
            run._try(bench, part(MAKE, raises(KeyboardInterrupt())))
        assert FAILED is bench.answers[MAKE]


@pytest.mark.parametrize(
    ("answer", "without", "forbids"),
    [
        (WORKS, Without.NOTHING, False),
        (REFUSED, Without.NOTHING, True),
        (REFUSED, Without.ACLS, False),
        (FAILED, Without.ACLS, True),
        (NOT_TRIED, Without.NOTHING, False),
    ],
)
def test_a_trial_fails_by_what_the_copy_needs_and_by_what_nobody_knows(
    answer: Answer, without: Without, forbids: bool
) -> None:
    """A refusal that the copy does without costs a row."""
    assert forbids == Tried("B", "a part", answer, "", without).forbids


@pytest.mark.parametrize("parts", [SOURCE, TARGET])
def test_a_part_comes_behind_those_that_it_needs(parts: tuple[Part, ...]) -> None:
    """Otherwise it would never be tried."""
    names = [it.name for it in parts]
    assert len(names) == len({*names})
    assert all(names.index(before) < names.index(it.name) for it in parts for before in it.after)


def test_what_is_done_without_a_request_is_told_in_the_same_words(repository: Any) -> None:
    """docs/refused-requests.md has the words of a trial, but for what only a trial sees."""
    page = (repository / "docs" / "refused-requests.md").read_text(encoding="utf-8")
    of_a_trial = {
        *(Without.UNSAFE, Without.CODECS, Without.OTHER_BATCHES),
        *(Without.DRILLS, Without.CLONES, Without.REBUILDS),
    }
    assert of_a_trial == {it for it in Without if f"| {it.value} |" not in page}
