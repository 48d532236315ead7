"""The example Dags of docs/howto/airflow.md, as they stand there, on a real Airflow with a triggerer.

Their flow is home->away here.  Its source wants a login, which lies in an Airflow connection of type kafka.  Costs
about two minutes.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, commit_group, create_topic, produce
from twinlog.lab.demo.airflow_instance import COMPONENTS, TRIGGERER, AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "airflow.md"

CONFIGURATION = """\
clusters = home, away
home.bootstrap.servers = ${airflow:kafka_home:bootstrap.servers}
home.security.protocol = SASL_PLAINTEXT
home.sasl.mechanism = SCRAM-SHA-512
home.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="${airflow:kafka_home:sasl.username}" password="${airflow:kafka_home:sasl.password}";
away.bootstrap.servers = AWAY
home->away.enabled = true
home->away.topics = owned-.*
home->away.groups = billing.*
home->away.sync.group.offsets.enabled = true
sync.topic.acls.enabled = false
twinlog.spark.master = local[2]
twinlog.schedule = 0 0 1 1 *
twinlog.gate.free.disk.percent = 0
twinlog.gate.fence.seconds = 1
twinlog.reports.folder = REPORTS
heartbeats.replication.enabled = false
replication.factor = 1
"""


def examples(page: str) -> dict[str, str]:
    """The Dag files of a page, by name: code blocks that begin with their path."""
    return dict(re.findall(r"```python\n# dags/(\w+\.py)\n(.*?)```", page, re.DOTALL))


@pytest.fixture(scope="module")
def users(
    secure_cluster, cluster_b, tmp_path_factory: pytest.TempPathFactory, watching: Callable[..., Any]
) -> Iterator[Any]:
    """An Airflow of a user: the examples are its only Dags."""
    folder = tmp_path_factory.mktemp("own")
    dags = folder / "dags"
    dags.mkdir()
    for name, text in examples(PAGE.read_text()).items():
        (dags / name).write_text(text.replace("A->B", "home->away").replace("twinlog://B", "twinlog://away"))
    config = folder / "mm2.properties"
    told = CONFIGURATION.replace("AWAY", cluster_b.bootstrap_servers)
    config.write_text(told.replace("REPORTS", str(folder / "reports")))
    login = {
        "bootstrap.servers": secure_cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "wonder land!",
    }
    settings = {"AIRFLOW_CONN_KAFKA_HOME": json.dumps({"conn_type": "kafka", "extra": login})}
    with AirflowInstance(
        folder / "airflow", config, dags=dags, settings=settings, components=(*COMPONENTS, TRIGGERER)
    ) as instance:
        instance.wait_until_healthy()
        running = watching(instance)
        running.wait("the examples", lambda: "orders" in instance.api.dag_ids(), 90)
        yield running


def records(count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k", b"%d" % n, now) for n in range(count)]


def log_of(users: Any, dag_id: str, run_id: str, task: str) -> str:
    """The log of a task, all of its tries."""
    lines = []
    for name in sorted((users.instance.home / "logs").rglob(f"*{run_id}*/task_id={task}/*.log*")):
        lines.append(name.read_text(errors="replace"))
    return "\n".join(lines)


def test_the_example_goes_from_copy_to_ready(users, secure_cluster, cluster_b) -> None:
    """The login comes from a connection; all is copied, proved equal, translated, and ready for a failover."""
    topic = create_topic(secure_cluster, f"owned-{uuid.uuid4().hex[:6]}")
    produce(secure_cluster, topic, records(100))
    commit_group(secure_cluster, "billing", topic, 40)
    users.api.pause("orders", paused=False)
    run_id = users.api.trigger("orders")
    states = users.finish("orders", run_id)
    print(log_of(users, "orders", run_id, "replicate")[-6000:])
    print(log_of(users, "orders", run_id, "ready")[-6000:])
    assert dict.fromkeys(["replicate", "audit", "billing", "ready"], "success") == states
