"""Clusters that refuse single requests: a cycle loses nothing, doubles nothing, and says in one line what is missing.

The table of docs/refused-requests.md is tried here, request by request, in the three ways in which clusters refuse: an
answer that denies it, a broker that does not offer it, and one that ends the connection.  With TWINLOG_SHOW_REFUSED=1
the tests print what a person reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest
from api_proxy import API_VERSIONS, How
from refused_table import GROUPS, GUARDED, KEYS, NOTHING, SOURCE, STATE_ANEW, TARGET, Use, rows
from refusing import GROUP, ORDERS, Played, World, refused, world

from lab import committed

QUICK = ((SOURCE, "DescribeLogDirs", How.HIDDEN), (TARGET, "EndTxn", How.HIDDEN))
"""These are tried every day."""

NOT_IN_A_CYCLE = {(SOURCE, "DescribeProducers"), (SOURCE, "ListTransactions"), (TARGET, "DescribeLogDirs")}
"""Requests of other commands."""

ENDING = {(SOURCE, "Fetch"), (TARGET, "EndTxn")}
"""One request of each side, and of each client: a lost connection is the same to all the others."""

SAYS = {
    (SOURCE, "Produce"): "no offset syncs on",
    (SOURCE, "Fetch"): "to read topic",
    (SOURCE, "Metadata"): "to describe topic",
    (SOURCE, "OffsetFetch"): "positions of group",
    (SOURCE, "FindCoordinator"): "positions of group",
    (SOURCE, "CreateTopics"): "no offset syncs on",
    (SOURCE, "InitProducerId"): "no offset syncs on",
    (SOURCE, "DescribeAcls"): "ACLs of",
    (SOURCE, "DescribeConfigs"): "read the configuration of topic",
    (SOURCE, "DescribeClientQuotas"): "quotas of",
    (TARGET, "Produce"): "to records of",
    (TARGET, "Fetch"): "to read topic",
    (TARGET, "ListOffsets"): "the question for offsets",
    (TARGET, "Metadata"): "to see topic",
    (TARGET, "OffsetCommit"): "commit offsets of",
    (TARGET, "OffsetFetch"): "the offsets of",
    (TARGET, "FindCoordinator"): "who coordinates",
    (TARGET, "CreateTopics"): "to create topic",
    (TARGET, "InitProducerId"): "to write to topic",
    (TARGET, "DescribeAcls"): "ACLs of",
    (TARGET, "CreateAcls"): "to create the ACL",
    (TARGET, "DescribeConfigs"): "the configuration of topic",
    (TARGET, "CreatePartitions"): "to add partitions",
    (TARGET, "IncrementalAlterConfigs"): "topic_configs: ",
    (TARGET, "DescribeClientQuotas"): "quotas of",
    (TARGET, "AlterClientQuotas"): "quotas: ",
}
"""Words of a line about a request that does not name it."""

RIGHTS = {KEYS["Metadata"]: "DESCRIBE"}
"""Who may not see a topic has nothing to try: `check` names the missing right."""

NOT_IN_A_TRIAL = {(TARGET, "CreateAcls"), (TARGET, "AlterClientQuotas"), (SOURCE, "ListTransactions")}
"""A trial changes no rights and no quotas, and holds no transaction open."""

FEATURES_AT_MOST = 4
"""The most features that one request is for; each has a line.  Metadata: heartbeats, syncs, groups and checks."""

UNSEEN = {GUARDED, STATE_ANEW}
"""Costs of which a cycle says nothing."""

NEVER_HIDDEN = "Metadata"
"""No client of Kafka starts without it; librdkafka waits for it in vain at every question."""

USES = rows()
TRIED = [it for it in USES if (it.side, it.name) not in NOT_IN_A_CYCLE]


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("refusing")) as made:
        yield made


def test_two_requests_that_are_not_offered(between: World) -> None:
    """One costs a line, one stops the copy; afterwards each record is there once."""
    wanted = [
        (use, how) for side, name, how in QUICK for use in TRIED if (use.side, use.name) == (side, name)
    ]
    assert [] == try_each(between, wanted)


def test_the_table_has_every_request_that_a_cycle_sends(between: World) -> None:
    """On either side; learning what is offered aside."""
    for it in between.sides.values():
        it.proxy.refuse({})
    between.write()
    assert "" == between.play().code
    asked = {(side, key) for side, it in between.sides.items() for key in it.proxy.refusals.asked}
    assert set() == {it for it in asked if it[1] != API_VERSIONS} - {(it.side, it.key) for it in USES}


@pytest.mark.long
@pytest.mark.parametrize("how", [How.DENIED, How.HIDDEN])
@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_each_request_that_is_denied_or_not_offered(between: World, side: str, how: How) -> None:
    """A cycle says in one line what the table says, and so does `twinlog check --try`."""
    wanted = [use for use in TRIED if use.side == side and (how, use.name) != (How.HIDDEN, NEVER_HIDDEN)]
    assert [] == try_each(between, [(use, how) for use in wanted])


@pytest.mark.long
def test_requests_at_which_the_connection_ends(between: World) -> None:
    """A cycle may fail or do without; it says so, and nothing is lost, doubled or called done."""
    wanted = [use for use in TRIED if (use.side, use.name) in ENDING]
    assert [] == try_each(between, [(use, How.CLOSED) for use in wanted])


def try_each(made: World, wanted: Sequence[tuple[Use, How]]) -> list[str]:
    """Run a cycle without each request in turn, then one with all; return what is not as the table says."""
    wrong = [f"{use.side} {use.name} {how}: {it}" for use, how in wanted for it in tried(made, use, how)]
    healed = made.play()
    assert ("", 0) == (healed.code, healed.exit_code), healed
    assert [] == [it for it in made.places if not made.copied(*it)]
    return wrong


def tried(made: World, use: Use, how: How) -> Iterator[str]:
    """Run a cycle without one request, and yield what is not as the table says."""
    known = len(made.places)
    made.stir(use.side, use.key)
    made.write()
    before = made.move_group()
    with refused(made, use.side, use.key, how) as hits:
        played = made.play()
        if how is not How.HIDDEN and not hits[use.key] and use.without != STATE_ANEW:
            yield "was not sent"
        checked = made.check() if how is not How.CLOSED else None
    show(use, how, played, checked)
    copied = [made.copied(*it) for it in made.places]
    synced = before < committed(made.target, GROUP, f"A.{ORDERS}")
    if checked is None:
        if not played.code and not all(copied):
            yield "nothing failed, and not all is copied"
        if (played.code or played.exit_code) and not played.lines:
            yield "failed in silence"
        return
    expected = (use.stops, use.without != NOTHING, not use.stops)
    seen = (bool(played.code), all(copied[:known]), all(copied[known:] or copied))
    if expected != seen:
        yield f"fails, copies what has a copy, copies what is new: {seen}"
    if not use.stops and synced != (use.without != GROUPS):
        yield f"the group is {'' if synced else 'not '}synced"
    if len(warned := [it for it in played.lines if it.startswith("warning")]) > FEATURES_AT_MOST:
        yield f"many lines: {warned}"
    if use.without not in UNSEEN and not played.says(
        use.name, *filter(None, [SAYS.get((use.side, use.name))])
    ):
        yield f"no line names it: {played.lines}"
    if use.without != GUARDED and (use.side, use.name) not in NOT_IN_A_TRIAL:
        yield from unseen(use, checked)


def unseen(use: Use, checked: Played) -> Iterator[str]:
    """Yield what `twinlog check --try` does not say of a request that is refused."""
    if checked.code:
        return
    if not checked.says(use.without, use.name, RIGHTS.get(use.key, use.name)):
        yield f"a trial says nothing of it: {checked.lines}"
    if use.stops and not checked.exit_code:
        yield "a trial passes"


def show(use: Use, how: How, played: Played, checked: Played | None) -> None:
    if not os.environ.get("TWINLOG_SHOW_REFUSED"):
        return
    print(f"== {use.side} {use.name} {how}: {played}")
    if checked is not None:
        print(f"   check: {checked}")
