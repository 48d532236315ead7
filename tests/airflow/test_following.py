"""Which runs of a continuous Dag follow, for how long, and who may relieve them."""

from collections.abc import Callable

import pytest

from twinlog.airflow.cycle import CycleRequest
from twinlog.airflow.flows import CONFIG_VARIABLE, read_configuration
from twinlog.airflow.following import (
    driver_name,
    followed,
    gives_way_to,
    leaves_it_to,
    retries,
)
from twinlog.config.flow.settings import FlowSettings

DAG = "replicate__A__B"
CONTINUOUS = "twinlog.schedule = @continuous\n"


@pytest.fixture
def flow(tmp_path, monkeypatch) -> Callable[[str], FlowSettings]:
    """`flow(lines)` reads the flow A->B of a file with these lines."""

    def read(lines: str) -> FlowSettings:
        file = tmp_path / "mm2.properties"
        ends = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        file.write_text(ends + lines)
        monkeypatch.setenv(CONFIG_VARIABLE, str(file))
        return read_configuration().flows["A->B"]

    return read


def test_a_run_goes_on_until_the_second_after_it(flow) -> None:
    """And five minutes: the next one ends it when its own Spark session is ready, unless that failed in something."""
    continuous = flow(CONTINUOUS + "twinlog.follow.seconds = 20\n")
    assert (5 * 60, 15 * 60) == (continuous.copy.run_seconds, continuous.copy.longest_run_seconds)


def test_a_task_of_a_run_that_relieves_another_is_tried_until_the_next_run(flow) -> None:
    """Otherwise a cluster that was down for two minutes would be looked at again a quarter of an hour later."""
    lines = ("", CONTINUOUS, CONTINUOUS + "twinlog.follow.seconds = 1\n")
    assert [2, 30, 2] == [retries(flow(each), 2) for each in lines]


def test_only_a_continuous_dags_own_runs_follow(flow) -> None:
    """A run by hand, or a backfill, is the cycle it asks for; so is every run of a scheduled Dag."""
    asked, continuous = CycleRequest(("orders",)), flow(CONTINUOUS)
    assert CycleRequest(("orders",), follow_seconds=35 * 60) == followed(asked, "scheduled", continuous)
    assert [asked, asked] == [followed(asked, kind, continuous) for kind in ("manual", "backfill")]
    assert asked == followed(asked, "scheduled", flow(""))


def test_a_driver_gives_way_to_other_runs_of_its_dag_alone(flow) -> None:
    """Whoever runs the flow elsewhere as well made a mistake, and must hear of it."""
    drivers = [driver_name(DAG, "scheduled__1", 2), driver_name(f"{DAG}2", "scheduled__1", 1), "5f2c7e", ""]
    names = gives_way_to(flow(CONTINUOUS), DAG)
    assert [True, False, False, False] == [driver.startswith(names) for driver in drivers]


@pytest.mark.parametrize(
    ("states", "run"),
    [
        ({}, ""),
        ({"scheduled__1": "success", "manual__9": "running"}, ""),
        ({"scheduled__1": "running"}, "scheduled__1"),
        ({"scheduled__1": "running", "scheduled__2": "queued"}, "scheduled__2"),
        ({"scheduled__1": "up_for_retry", "scheduled__2": "upstream_failed"}, "scheduled__1"),
    ],
)
def test_a_run_by_hand_leaves_the_copy_to_one_that_follows(states: dict[str, str], run: str) -> None:
    """From the moment on in which that waits for a worker, until it has ended for good; the Dag's own runs follow."""
    assert run == left_to(states, "manual__7", CycleRequest(), 1)


def left_to(states: dict[str, str], run_id: str, request: CycleRequest, try_number: int) -> str:
    by_run = {name: {"copy": state} for name, state in states.items()}
    return leaves_it_to(lambda: by_run, "copy", run_id, request, try_number)


def test_a_run_that_follows_relieves_those_before_it() -> None:
    """But one that died, and is tried again, does not take the flow from the run that has relieved it meanwhile."""
    states, follows = (
        dict.fromkeys(("scheduled__1", "scheduled__2"), "running"),
        CycleRequest(follow_seconds=60),
    )
    assert ["", ""] == [left_to(states, run, follows, 1) for run in states]
    assert ["scheduled__2", ""] == [left_to(states, run, follows, 2) for run in states]
