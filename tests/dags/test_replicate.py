"""The Dag file as Airflow's Dag processor sees it."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

STEPS = [
    "discover",
    "sync_topics",
    "plan_ranges",
    "copy",
    "offset_syncs",
    "checkpoints",
    "heartbeats",
    "validate",
    "publish",
]

THREE_FLOWS = """\
clusters = us-east, B, C
us-east.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
C.bootstrap.servers = localhost:9094
us-east->B.enabled = true
us-east->B.topics = orders.*
us-east->B.twinlog.schedule = */5 * * * *
B->C.enabled = true
C->B.enabled = false
C.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="repl" password="${airflow:kafka_c}";
C.security.protocol = SASL_PLAINTEXT
C.sasl.mechanism = PLAIN
"""


@pytest.fixture
def read_dags(bag_of):
    """`read_dags(text)` is the DagBag under a configuration file of that text."""
    return bag_of


def test_one_dag_per_enabled_flow(read_dags) -> None:
    """Ids come from the aliases; a flow that only beats has none, but a way home goes by it; no connection is asked
    for at parse time.
    """
    bag = read_dags(THREE_FLOWS)

    assert {} == bag.import_errors
    homeward = {"replicate__B_home__us_east", "replicate__C_home__B"}
    ids = {dag_id for dag_id in bag.dags if dag_id.startswith("replicate")}
    assert {"replicate__us_east__B", "replicate__B__C", *homeward} == ids


def test_the_way_home_has_the_same_tasks_behind_one_that_asks(read_dags) -> None:
    """Everything is skipped at once while no way home is under way, whatever the trigger rules of the tasks."""
    dag = read_dags(THREE_FLOWS).dags["replicate__B_home__us_east"]
    (first,) = dag.roots
    assert ("brings_home", True) == (first.task_id, first.ignore_downstream_trigger_rules)
    assert {"brings_home", *STEPS} == {task.task_id for task in dag.tasks}
    assert all(task.doc_md for task in dag.tasks)
    assert "On the way home: bring what clients wrote on B to us-east, exactly once" == dag.description


def test_tasks_are_the_steps_in_their_order(read_dags, repository: Path) -> None:
    """Names and order of tasks are those of the modules in twinlog.steps."""
    dag = read_dags(THREE_FLOWS).dags["replicate__B__C"]

    chained = [dag.roots[0]]
    while chained[-1].downstream_list:
        assert 1 == len(chained[-1].downstream_list)
        chained.append(chained[-1].downstream_list[0])

    assert STEPS == [task.task_id for task in chained]
    assert all((repository / "include" / "twinlog" / "steps" / f"{name}.py").exists() for name in STEPS)


def test_a_run_is_a_cycle_and_there_is_one_at_a_time(read_dags) -> None:
    """Schedule from the file, no catch-up; steps of two runs (a backfill brings several) do not overlap."""
    dag = read_dags(THREE_FLOWS).dags["replicate__us_east__B"]

    assert (1, False) == (dag.max_active_runs, dag.catchup)
    assert "*/5 * * * *" in repr(dag.timetable)
    assert {1} == {task.max_active_tis_per_dag for task in dag.tasks}


def test_dag_says_what_it_is(read_dags) -> None:
    """Owner, tags and a page of text; every task has a line of its own."""
    dag = read_dags(THREE_FLOWS).dags["replicate__us_east__B"]

    assert "twinlog" == dag.owner
    assert {"twinlog", "source:us-east", "target:B"} == set(dag.tags)
    assert "`orders.*`" in dag.doc_md
    assert all(task.doc_md for task in dag.tasks)


def test_a_cycle_has_a_deadline(read_dags) -> None:
    """The strictest RPO of the flow, counted from when the run was queued; a backfill has none."""
    dags = read_dags(THREE_FLOWS + "twinlog.tier.gold.topics=a\ntwinlog.tier.gold.rpo.seconds=77\n").dags
    (deadline,) = dags["replicate__B__C"].deadline

    assert (77, "QueuedUnlessBackfill") == (
        deadline.interval.total_seconds(),
        deadline.reference.reference_name,
    )


def test_only_the_last_task_tells_of_the_remote_cluster(read_dags) -> None:
    """An asset event says that a whole cycle is done."""
    dag = read_dags(THREE_FLOWS).dags["replicate__us_east__B"]

    assert {"publish": ["twinlog://B/"]} == {
        task.task_id: [asset.uri for asset in task.outlets]
        for task in dag.tasks
        if task.outlets and task.task_id != "checkpoints"
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("clusters = A, B\nA.bootstrap.servers = localhost:9092\n", "B"),
        ("clusters = A, B\nA->B.enabled = true\nA->B.topics = [unclosed\n", "mm2.properties"),
        (None, "mm2.properties"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_import_error(read_dags, text: str | None, line: str) -> None:
    """Not a missing Dag: it says what is wrong, and where."""
    bag = read_dags(text)

    assert {} == bag.dags
    ((path, error),) = bag.import_errors.items()
    assert "twinlog_dags.py" == Path(path).name
    assert line in error.partition("\ntwinlog.errors.ConfigError: ")[2]
    assert "include/twinlog/config" not in error


@pytest.mark.parametrize(
    ("lines", "timetable", "runs", "copies"),
    [
        ("", "CronDataIntervalTimetable", 1, 1),
        ("B->C.twinlog.schedule = @continuous\n", "DeltaDataIntervalTimetable", 3, 3),
    ],
)
def test_runs_of_a_continuous_dag_overlap_where_a_fence_keeps_them_apart(
    read_dags, lines: str, timetable: str, runs: int, copies: int
) -> None:
    """All other Dags have one run at a time."""
    bag = read_dags(THREE_FLOWS + lines)
    dag = bag.dags["replicate__B__C"]
    assert ({}, timetable, runs, copies) == (
        bag.import_errors,
        type(dag.timetable).__name__,
        dag.max_active_runs,
        dag.get_task("copy").max_active_tis_per_dag,
    )
