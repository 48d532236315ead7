import datetime as dt
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.airflow.cycle import CycleRequest
from twinlog.airflow.operators.copy import copy_request, failure_of, why_no_job
from twinlog.airflow.operators.spark_job import error_of
from twinlog.cluster import api
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import CONTINUOUS, FlowSettings
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.state.ledger import write_ledger

RANGE = {"topic": "orders", "partition": 0, "start": 0, "end": 9}
STOPPED = {
    "topic": "orders",
    "partition": 1,
    "code": "gap",
    "message": "orders-1: upstream offsets 3 to 5 were deleted",
}
UNENDED = "A.orders-0"
PLACELESS = STOPPED | {"code": "no-target-partition", "message": "orders-2 has no place yet"}
COMPLETE = {
    "state": "done",
    "records": 12,
    "partitions": [{"topic": "orders", "partition": 0, "error": ""}],
    "stopped": [],
    "problems": [],
    "transient": False,
    "error": "",
}


def plan(*, ranges: list = (), stopped: list = (), unended: list = ()) -> dict:
    return {
        "records": 9 * len(ranges),
        "ranges": list(ranges),
        "stopped": list(stopped),
        "unended": list(unended),
    }


class TestWhyNoJob:
    def test_ranges_need_a_job(self) -> None:
        """Stopped partitions do not keep the others from being copied."""
        assert "" == why_no_job(plan(ranges=[RANGE], stopped=[STOPPED]), CycleRequest())

    def test_idle_flow_needs_none(self) -> None:
        """A cold Spark job costs 15 CPU-seconds."""
        assert "nothing to copy" == why_no_job(plan(), CycleRequest())

    def test_a_copy_with_an_open_transaction_needs_a_job(self) -> None:
        """Nothing is to be copied, but only a driver that fences can end it; nor do stopped partitions hide it."""
        assert "" == why_no_job(plan(unended=[UNENDED]), CycleRequest())
        assert "" == why_no_job(plan(unended=[UNENDED], stopped=[STOPPED]), CycleRequest())

    def test_following_needs_a_job_though_nothing_waits(self) -> None:
        """Records that arrive later are what it is for."""
        asked = CycleRequest(follow_seconds=30.0)
        assert "" == why_no_job(plan(), asked)

    def test_dry_run_says_what_would_be_copied(self) -> None:
        """And runs nothing."""
        said = why_no_job(plan(ranges=[RANGE]), CycleRequest(dry_run=True))

        assert "dry run: up to 9 records in 1 partitions would be copied" == said

    def test_only_stopped_partitions_fail_without_a_job(self) -> None:
        """Starting Spark each minute to say the same would help nobody."""
        with pytest.raises(TerminalError, match="3 to 5 were deleted"):
            why_no_job(plan(stopped=[STOPPED, PLACELESS]), CycleRequest())

    def test_partitions_that_may_go_on_by_themselves_are_tried_again(self) -> None:
        """A person could do nothing about them."""
        with pytest.raises(TransientError, match="no place yet"):
            why_no_job(plan(stopped=[PLACELESS]), CycleRequest())

    @pytest.mark.parametrize("stopped", [[], [STOPPED], [PLACELESS]])
    def test_another_try_sees_for_itself(self, stopped: list) -> None:
        """The plan is the first try's: a retry, or a task cleared after a repair, would hear the same for ever."""
        assert "" == why_no_job(plan(stopped=stopped), CycleRequest(), 2)

    def test_without_a_plan_the_job_sees_for_itself(self) -> None:
        """Somebody may mark the task before it a success."""
        assert "" == why_no_job(None, CycleRequest())

    @pytest.mark.parametrize("planned", [None, plan(ranges=[RANGE])])
    def test_a_dry_run_copies_nothing_however_often_it_is_cleared(self, planned: dict | None) -> None:
        """With a plan or without one."""
        assert why_no_job(planned, CycleRequest(dry_run=True), 2).startswith("dry run")


class TestFailureOf:
    def test_complete_copy_is_none(self) -> None:
        """Also when there was nothing to do."""
        assert failure_of(COMPLETE) is None
        assert failure_of(COMPLETE | {"state": "nothing", "partitions": []}) is None

    @pytest.mark.parametrize(("transient", "kind"), [(True, TransientError), (False, TerminalError)])
    def test_incomplete_copy_names_its_partitions(self, transient: bool, kind: type[Exception]) -> None:
        """Whether it is worth another try is what the copy says."""
        outcome = COMPLETE | {
            "state": "failed",
            "transient": transient,
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 2,
                    "error": "the source went away",
                    "error_code": "source-lost",
                },
                {"topic": "orders", "partition": 3, "error": "", "error_code": ""},
            ],
            "stopped": [STOPPED],
        }

        failure = failure_of(outcome)

        assert type(failure) is kind
        assert "12 records copied" in str(failure)
        assert "orders-2: the source went away" in str(failure)
        assert "3 to 5 were deleted" in str(failure)
        todo = "the other partitions are copied; docs/errors.md says what to do for gap; source-lost"
        assert todo == failure.hint

    def test_error_of_the_job_keeps_its_class(self) -> None:
        """A retry is decided by it."""
        error = {"kind": "FencedError", "code": "fenced", "message": "another twinlog runs this flow"}

        failure = error_of({"error": error})

        assert (FencedError, "fenced") == (type(failure), failure.code)

    @pytest.mark.parametrize("kind", ["ExitCode", "Any", "NoSuchError"])
    def test_unknown_class_is_terminal(self, kind: str) -> None:
        """Nothing but twinlog's errors is looked up by name."""
        failure = error_of({"error": {"kind": kind, "code": "x", "message": "m"}})

        assert TerminalError is type(failure)

    def test_job_that_died_is_tried_again(self) -> None:
        """Out of memory, killed: what was committed counts, the next driver fences again."""
        assert isinstance(error_of(None), TransientError)

    def test_long_lists_are_cut(self) -> None:
        """The message is one line in a list of task instances; the log has the rest."""
        partitions = [{"topic": "t", "partition": number, "error": "no"} for number in range(300)]

        said = str(failure_of(COMPLETE | {"state": "failed", "partitions": partitions}))

        assert "t-4: no; and 295 more" in said


@pytest.fixture
def flow() -> FlowSettings:
    here = ConnectionSettings("A", ())
    return FlowSettings(ClusterSettings("A", "a:1", here), ClusterSettings("B", "b:1", here))


@pytest.fixture
def continuous(flow: FlowSettings) -> FlowSettings:
    return replace(flow, schedule=CONTINUOUS)


def context(
    params: dict[str, Any], *, kind: str = "manual", planned: dict | None = None, stands_by: str = ""
) -> Any:
    """What Airflow gives a task."""
    results = {"plan_ranges": planned, "discover": {"stands_by": stands_by}}
    run = SimpleNamespace(
        run_id="r",
        dag_id="dag",
        run_type=SimpleNamespace(value=kind),
        data_interval_end=dt.datetime.now(dt.UTC),
    )
    ti = SimpleNamespace(
        try_number=1,
        task_id="copy",
        xcom_pull=lambda task_ids: results[task_ids],
        get_task_states=lambda dag_id, task_ids: {"scheduled__9": {"copy": "running"}},
    )
    return {"params": params, "dag_run": run, "ti": ti}


class TestCopyRequest:
    def test_it_says_what_the_form_says(self, flow) -> None:
        """Bounds and topics only if they were given; a retry is another driver."""
        form = {"topics": ["a", "b"], "until": "1970-01-01T00:00:01Z"}
        found, bare = copy_request(flow, context(form)), copy_request(flow, context({}))
        assert ("copy", flow.name, "dag/r/1", 1000, ("a", "b")) == (
            *(found.step, found.flow, found.run_id),
            *(found.until_ms, found.topics),
        )
        assert (None, (), None, "") == (bare.until_ms, bare.topics, bare.follow_seconds, bare.gives_way_to)

    def test_a_run_that_follows_gives_way_to_the_next(self, continuous) -> None:
        """It is told for how long, and to whom."""
        found = copy_request(continuous, context({}, kind="scheduled"))
        assert (2100.0, "dag/") == (found.follow_seconds, found.gives_way_to)

    def test_there_is_none_if_nothing_is_to_be_copied(self, flow) -> None:
        """The task is skipped, not failed."""
        from airflow.sdk.exceptions import AirflowSkipException

        with pytest.raises(AirflowSkipException, match="nothing to copy"):
            copy_request(flow, context({}, planned=plan()))

    @pytest.mark.parametrize("params", [{}, {"dry_run": True}])
    def test_a_suspended_flow_says_so(self, flow, params: dict[str, Any]) -> None:
        """Records may wait on the source: `nothing to copy` would be false good news."""
        from airflow.sdk.exceptions import AirflowSkipException

        with pytest.raises(AirflowSkipException, match=r"^A->B is paused by jo: upgrade: nothing is copied$"):
            copy_request(flow, context(params, planned=plan(), stands_by="paused by jo: upgrade"))

    def test_a_copy_that_is_cleared_asks_who_suspends_the_flow_now(
        self, flow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its run is an old one, which had found the flow active; since then the target was promoted."""
        from airflow.sdk.exceptions import AirflowSkipException

        target = FakeCluster("B")
        target.add_topic(flow.ledger_topic)
        state = FlowState(FlowPhase.PROMOTED, 1, "jo", "failover, planned")
        write_ledger(flow, target, [state])
        monkeypatch.setattr(api, "open_clusters", lambda _: nullcontext(Clusters(FakeCluster("A"), target)))
        cleared = context({}, planned=plan(ranges=[RANGE]))
        cleared["ti"].try_number = 2
        with pytest.raises(
            AirflowSkipException, match=r"^A->B is promoted by jo: failover, planned: nothing"
        ):
            copy_request(flow, cleared)

    def test_there_is_none_beside_a_run_that_follows(self, continuous) -> None:
        """The other copies it."""
        from airflow.sdk.exceptions import AirflowSkipException

        with pytest.raises(AirflowSkipException, match="run scheduled__9 follows"):
            copy_request(continuous, context({}))
