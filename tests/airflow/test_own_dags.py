"""The example Dags of docs/howto/airflow.md, as they stand there, beside twinlog's, on a real Airflow with a triggerer.

Their flow is home->away here.  Its source wants a login, which lies in an Airflow connection of type kafka.  Costs
about four minutes.
"""

from __future__ import annotations

import json
import re
import shutil
import socketserver
import time
import uuid
from collections.abc import Callable, Iterator
from email import message_from_string, policy
from email.message import EmailMessage
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lab import Seen, commit_group, create_topic, produce, read
from twinlog.lab.demo.airflow_instance import COMPONENTS, TRIGGERER, AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.timeout(2400)]

PAGE = Path(__file__).parents[2] / "docs/howto/airflow.md"

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
home->away.twinlog.alert.url = ALARM
sync.topic.acls.enabled = false
twinlog.spark.master = local[2]
twinlog.schedule = 0 0 1 1 *
twinlog.audit.schedule = 0 0 1 1 *
twinlog.gate.free.disk.percent = 0
twinlog.gate.fence.seconds = 1
twinlog.reports.folder = REPORTS
heartbeats.replication.enabled = false
replication.factor = 1
"""


def examples(page: str) -> dict[str, str]:
    """The Dag files of a page, by name: code blocks that begin with their path."""
    return dict(re.findall(r"```python\n# dags/(\w+\.py)\n(.*?)```", page, re.DOTALL))


STARTED = ("replicate__home__away", "audit__home__away")
"""Twinlog's Dags that the examples start."""

WAITING = """\
from datetime import timedelta

from airflow.sdk import DAG, DeadlineAlert, DeadlineReference, SyncCallback

from twinlog.airflow.notifiers import FlowNotifier
from twinlog.airflow.sensors import FailoverReadinessSensor

late = DeadlineAlert(
    reference=DeadlineReference.DAGRUN_QUEUED_AT,
    interval=timedelta(seconds=1),
    callback=SyncCallback(FlowNotifier, kwargs={"flow": "home->away"}),
)

with DAG("waiting", schedule=None, deadline=late):
    FailoverReadinessSensor(task_id="ready", flow="home->away", deferrable=True, poke_interval=15, timeout=1800)
"""
"""The sensor of the first example is asked when all is well; this one has to wait, and its Dag is late."""


class Mailbox(socketserver.StreamRequestHandler):
    """Takes a mail (RFC 5321, as far as smtplib needs it)."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        data = False
        for line in iter(self.rfile.readline, b""):
            if data:
                self.server.mails.append(line.decode())
                data = line.strip() != b"."
            elif line.upper().startswith(b"DATA"):
                data = True
                self.wfile.write(b"354 go on\r\n")
                continue
            if not data:
                self.wfile.write(b"250 well\r\n")


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Any]:
    """A mail server of this machine; `mails` are the lines that it took."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.mails = []
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def users(
    secure_cluster,
    cluster_b,
    tmp_path_factory: pytest.TempPathFactory,
    watching: Callable[..., Any],
    mailbox: Any,
    alarm_address: str,
) -> Iterator[Any]:
    """An Airflow of a user: the examples are its Dags, and one more."""
    folder = tmp_path_factory.mktemp("own")
    dags = folder / "dags"
    dags.mkdir()
    shutil.copy(Path(__file__).parents[2] / "dags/twinlog_dags.py", dags)
    for name, text in examples(PAGE.read_text()).items():
        here = text.replace("A->B", "home->away").replace("__A__B", "__home__away")
        here = here.replace("twinlog B", "twinlog away")
        (dags / name).write_text(here.replace("://B", "://away"))
    (dags / "waiting.py").write_text(WAITING)
    config = folder / "mm2.properties"
    told = CONFIGURATION.replace("AWAY", cluster_b.bootstrap_servers).replace("ALARM", alarm_address)
    config.write_text(told.replace("REPORTS", str(folder / "reports")))
    login = {
        "bootstrap.servers": secure_cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "wonder land!",
    }
    mail = {"disable_ssl": True, "disable_tls": True}
    port = mailbox.server_address[1]
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": mail}
    settings = {
        "AIRFLOW_CONN_KAFKA_HOME": json.dumps({"conn_type": "kafka", "extra": login}),
        "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp),
    }
    with AirflowInstance(
        folder / "airflow", config, dags=dags, settings=settings, components=(*COMPONENTS, TRIGGERER)
    ) as instance:
        instance.wait_until_healthy()
        running = watching(instance)
        names = {"orders", "weekly_audit", "load_orders", "waiting", *STARTED}
        running.wait("the examples", lambda: names <= instance.api.dag_ids(), 120)
        assert [] == instance.api.import_errors()
        for dag_id in STARTED:
            running.api.pause(dag_id, paused=False)
        yield running


def records(count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k", b"%d" % n, now) for n in range(count)]


def finish(users: Any, dag_id: str, run_id: str) -> dict[str, str]:
    """Wait for a run of up to three Spark jobs to end; return the states of its tasks."""
    ended = {"success", "failed"}
    users.wait(run_id, lambda: users.api.run(dag_id, run_id)["state"] in ended, timeout_s=900)
    return users.finish(dag_id, run_id)


def all_logs(users: Any, dag_id: str = "orders") -> str:
    """The logs of a Dag's tasks, all of their tries."""
    files = sorted((users.instance.home / "logs" / f"dag_id={dag_id}").rglob("*.log*"))
    return "\n".join(f"== {file}\n{file.read_text(errors='replace')}" for file in files)


@pytest.fixture(scope="module")
def copied_topic(users, secure_cluster) -> str:
    """A topic of the source, and where billing stands in it."""
    topic = create_topic(secure_cluster, f"owned-{uuid.uuid4().hex[:6]}")
    produce(secure_cluster, topic, records(100))
    commit_group(secure_cluster, "billing", topic, 40)
    return topic


@pytest.fixture(scope="module")
def first_run(users: Any, copied_topic: str) -> tuple[str, str]:
    """A run that waits for a yes since before the first copy, and the run that made it: whatever test comes first."""
    waiting = waits(users)
    users.api.pause("load_orders", paused=False)
    users.api.pause("orders", paused=False)
    run_id = users.api.trigger("orders")
    finish(users, "orders", run_id)
    return waiting, run_id


def waits(users: Any) -> str:
    """Start a run that waits for a yes; the triggerer has asked, and logged a no with its reasons."""
    users.api.pause("waiting", paused=False)
    run_id = str(users.api.trigger("waiting"))
    task = f"dags/waiting/dagRuns/{run_id}/taskInstances/ready"
    users.wait("the triggerer", lambda: users.api.get(task)["state"] == "deferred")
    triggered = users.instance.home / "logs" / "dag_id=waiting"
    users.wait(
        "a no of the triggerer",
        lambda: any("flow-has-run:" in it.read_text() for it in triggered.rglob("*.trigger.*.log")),
    )
    return run_id


@pytest.mark.long
def test_from_copy_to_ready(users, secure_cluster, cluster_b, copied_topic, first_run, alarms) -> None:
    """With the login of a connection, all is copied, proved equal, and ready; who waits for it goes on."""
    waiting, run_id = first_run
    states = finish(users, "orders", run_id)
    assert dict.fromkeys(["replicate", "audit", "ready"], "success") == states, all_logs(users)
    copies, audits = ([each["dag_run_id"] for each in users.api.runs(dag_id)] for dag_id in STARTED)
    reports = {each: users.api.result(STARTED[0], each, "publish") for each in copies}
    (copied,) = (each for each in copies if reports[each]["records"])
    assert (100, {0}) == (reports[copied]["records"], {it["lag_records"] for it in reports.values()})
    (audited,) = (each for each in audits if each.startswith("manual"))
    audit = users.api.result(STARTED[1], audited, "compare")
    assert (True, 100) == (audit["equal"], sum(it["records"] for it in audit["partitions"]))
    ready = users.api.result("orders", run_id, "ready")
    assert (True, "planned") == (ready["ready"], ready["mode"])
    assert Path(ready["evidence"]).exists()
    assert read(secure_cluster, copied_topic) == read(cluster_b, f"home.{copied_topic}")
    assert {"ready": "success"} == finish(users, "waiting", waiting), all_logs(users, "waiting")
    late = users.wait("the deadline", lambda: [it["text"] for it in alarms if it["run"] == waiting])
    assert late[0].startswith(f"twinlog home->away: waiting of run {waiting}\n- ")
    heard = users.wait("load_orders", lambda: users.api.runs("load_orders"))
    assert {"load": "success"} == finish(users, "load_orders", heard[0]["dag_run_id"])
    assert [f"home.{copied_topic}"] == users.api.result("load_orders", heard[0]["dag_run_id"], "load")


@pytest.mark.long
@pytest.mark.usefixtures("first_run")
def test_a_mail_says_what_is_wrong(users, cluster_b, copied_topic, mailbox) -> None:
    """A stranger's record on the target: the audit fails once, and its task's notifier writes what to do."""
    produce(cluster_b, f"home.{copied_topic}", [Seen(b"k", b"stranger", int(time.time() * 1000))])
    users.api.pause("weekly_audit", paused=False)
    run_id = users.api.trigger("weekly_audit")
    assert {"audit": "failed"} == finish(users, "weekly_audit", run_id)
    mail = users.wait("the mail", lambda: whole(mailbox.mails))
    assert f"twinlog home->away: weekly_audit.audit of run {run_id}" in str(mail["Subject"])
    (text,) = (part.get_content() for part in mail.walk() if part.get_content_type() == "text/html")
    assert "are not equal to their source" in text
    assert "stranger" not in text


def whole(lines: list[str]) -> EmailMessage | None:
    """The mail of these lines, once the last one has come."""
    if not lines or lines[-1].strip() != ".":
        return None
    return message_from_string("".join(lines[:-1]), policy=policy.default)
