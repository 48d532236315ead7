"""Whose the state on the target is, by what its ledger says."""

from __future__ import annotations

import pytest

from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim, LaneWriter, names_ever, source_ids, written_as
from twinlog.lane.fence.ownership import Identity, Owned, require_claimed, require_ours
from twinlog.logs.log_state import KeptRecord, UndecidedRecord

US = Identity("A->B", "a", "b")
OURS = US.claim(1)
SECOND = FlowClaim("A->west", "a", "b", 2)
OLD_LIFE = Incarnation("t", "id", 1, "A.t", source_cluster_id="a")
OLD_WRITER = LaneWriter(7, "twinlog-A->B-0", 1)


def owned(*records: LedgerRecord, undecided: tuple[tuple[int, FlowClaim], ...] = ()) -> Owned:
    """What a ledger with these records says, the first of them at offset 10."""
    kept = {it.key(): KeptRecord(10 + n, it.value(), 0, 0) for n, it in enumerate(records)}
    return Owned.of(kept, {it.key(): UndecidedRecord(9, it.value(), 0, at) for at, it in undecided})


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ((), ""),
        ((OURS,), ""),
        ((OURS, SECOND), ""),
        ((SECOND, OURS), "another-name"),
        ((SECOND,), "another-name"),
        ((FlowClaim("A->B", "elsewhere", "b", 1),), "source-changed"),
        ((FlowClaim("A->B", "a", "restored", 1),), "target-changed"),
        ((OLD_LIFE, OLD_WRITER), ""),
        ((LaneWriter(7, "twinlog-A->west-12", 1),), "another-name"),
        ((OLD_WRITER, LaneWriter(8, "twinlog-A->west-0", 1)), ""),
        ((Incarnation("t", "id", 1, "A.t", source_cluster_id="elsewhere"),), "source-changed"),
        ((Incarnation("t", "id", 1, "A.t", source_cluster_id="elsewhere"), OLD_LIFE), ""),
        ((Incarnation("t", "id", 1, "A.t", source_cluster_id="elsewhere"), OURS), ""),
    ],
    ids=lambda it: it if isinstance(it, str) else None,
)
def test_the_first_claim_in_the_log_counts_and_without_one_what_older_releases_noted(
    records: tuple[LedgerRecord, ...], code: str
) -> None:
    """Later claims are those of drivers that were refused."""
    found = ""
    try:
        require_ours(US, owned(*records))
    except TerminalError as error:
        found = error.code
    assert code == found


@pytest.mark.parametrize(
    "identity", [Identity("A->B", "", "b"), Identity("A->B", "a", ""), Identity("A->B", "", "")]
)
def test_what_is_not_known_is_not_compared(identity: Identity) -> None:
    """Nor may it be claimed; the name is compared all the same."""
    require_ours(identity, owned(OURS))
    assert not identity.known
    with pytest.raises(TerminalError, match="second name"):
        require_ours(identity, owned(SECOND))


@pytest.mark.parametrize(("offset", "waits"), [(9, True), (11, False)])
def test_an_undecided_claim_before_ones_own_is_waited_for(offset: int, waits: bool) -> None:
    """It may still be committed; one behind it is refused when its driver reads the log."""
    found = owned(OURS, undecided=((offset, SECOND),))
    if waits:
        with pytest.raises(TransientError, match="is claiming the state"):
            require_claimed(US, found)
    else:
        require_claimed(US, found)
    require_ours(US, found)


def test_ones_own_undecided_claim_is_no_rival() -> None:
    """An earlier driver of the same name died with it open; its id is initialised since."""
    require_claimed(US, owned(undecided=((5, OURS),)))


def test_older_releases_tell_by_their_lanes_and_lives() -> None:
    """Names of two digits of lanes, too; a claim tells better than lives."""
    later = LaneWriter(8, "twinlog-A->west-11", 5)
    assert ("A->west", {"A->west", "A->B"}) == (
        written_as([later, OLD_WRITER]),
        names_ever([OLD_WRITER, later]),
    )
    assert ({"a"}, {"x"}) == (source_ids([OLD_LIFE]), source_ids([OLD_LIFE, FlowClaim("A->B", "x", "b", 1)]))
