"""The readiness gate on real brokers: told as one story, in which the source is lost at the end.

Cost: about 30 s, half of it a source of its own that can be stopped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Event, Thread

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lab import Seen, commit_group, configure, create_topic, cycle, produce
from twinlog.cli.main import main
from twinlog.cli.render import login
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.monitoring import publish

VERIFIER = Path(__file__).parents[1] / "gate" / "verify_evidence.py"


class Story:
    """A flow, its file, and the gate's answers at its stations."""

    def __init__(self, file: Path, keys: tuple[Path, Path]) -> None:
        self.file, self.keys = file, keys
        self.flow = next(iter(load(file).enabled_flows))
        self.answers: dict[str, tuple[int, dict]] = {}

    def command(self, *words: str) -> tuple[int, dict]:
        """Run one command line in this process; its exit code and JSON document."""
        out = StringIO()
        with redirect_stdout(out):
            code = main([*words, "--config", str(self.file), "--output", "json"])
        return code, json.loads(out.getvalue())

    def ask(self, station: str, *words: str) -> None:
        """Ask the gate, and keep the answer."""
        self.answers[station] = self.command("gate", *words)

    def cycle(self) -> None:
        """Copy, pass groups on, report."""
        started = int(time.time() * 1000)
        copied = cycle(self.flow)
        with open_clusters(self.flow) as clusters:
            checkpoints.run(self.flow, clusters)
            publish.run(self.flow, clusters, uuid.uuid4().hex, to_json(copied), started)

    def while_cycling(self, action: Callable[[], None]) -> None:
        """Do something while cycles run."""
        done = Event()

        def copy() -> None:
            while not done.is_set():
                self.cycle()

        copying = Thread(target=copy)
        copying.start()
        try:
            action()
        finally:
            done.set()
            copying.join()


def now(count: int) -> list[Seen]:
    at = int(time.time() * 1000)
    return [Seen(b"k%d" % n, b"v%d" % n, at) for n in range(count)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("keys")
    key = Ed25519PrivateKey.generate()
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "pub.pem").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return folder / "key.pem", folder / "pub.pem"


@pytest.fixture(scope="module")
def story(cluster_b, keys, tmp_path_factory) -> Iterator[Story]:
    """Everything that happens, in its order."""
    folder = tmp_path_factory.mktemp("gate")
    east, west = (f"{side}{uuid.uuid4().hex[:4]}" for side in ("east", "west"))
    with EmbeddedKafka("gate-source", folder / "kafka") as source:
        file = configure(
            folder,
            {east: source, west: cluster_b},
            [f"{east}->{west}"],
            topics="orders,payments,_schemas",
            groups="billing",
            sync__group__offsets__enabled="true",
            heartbeats__topic__replication__factor="1",
            checkpoints__topic__replication__factor="1",
            twinlog__gate__fence__seconds="1",
            twinlog__gate__free__disk__percent="0",
            twinlog__reports__folder=str(folder / "reports"),
            twinlog__tier__gold__topics="payments",
            twinlog__tier__gold__rpo__seconds="60",
        )
        told = Story(file, keys)
        create_topic(source, "orders", 3, retention_ms="604800000")
        create_topic(source, "payments", retention_ms="604800000")
        create_topic(source, "_schemas", cleanup_policy="compact")
        for partition in range(3):
            produce(source, "orders", now(40), partition)
        produce(source, "payments", now(10))
        produce(source, "_schemas", now(2))
        commit_group(source, "billing", "payments", 7)
        told.ask("never ran")
        told.ask("never ran, source dead", "--mode", "source-dead")
        told.cycle()
        told.ask("never audited")
        told.answers["audit"] = told.command("audit")
        told.ask("ready", "--sign-with", str(keys[0]), "--evidence", str(folder / "evidence.json"))
        told.ask("source alive", "--mode", "source-dead")
        told.while_cycling(lambda: told.ask("canary", "--canary", "--still-writing"))
        told.answers["status"] = told.command("status")
        produce(source, "payments", now(5))
        produce(source, "_schemas", now(3))
        commit_group(source, "billing", "payments", 9)
        told.ask("lag")
        told.cycle()
        told.ask("not audited since")
        told.command("audit")
        told.ask("caught up")
        produce(source, "payments", now(2))
        told.cycle()
    told.ask("source lost, planned")
    told.ask("source lost", "--mode", "source-dead", "--sign-with", str(keys[0]))
    words = ("accept", "audit-coverage", "--up-to", "1000000", "--reason", "drill", "--until", "1h")
    told.answers["accepted"] = told.command(*words)
    told.ask("source lost, accepted", "--mode", "source-dead")
    told.answers["list"] = told.command("accept")
    told.answers["withdrawn"] = told.command("accept", "audit-coverage", "--withdraw")
    yield told


def blocking(answer: dict) -> set[str]:
    return {
        it["name"]
        for it in answer["checks"]
        if it["severity"] == "critical" and not it["passed"] and not it["waived"]
    }


def test_a_complete_copy_is_ready(story: Story) -> None:
    """Once it was audited; one broker only warns."""
    code, answer = story.answers["never audited"]
    assert (1, {"audit-age", "audit-promised"}) == (code, blocking(answer))
    code, audit = story.answers["audit"]
    assert (0, True, True, []) == (code, audit["equal"], audit["proved"], audit["unproved"])
    code, answer = story.answers["ready"]
    assert (0, True, set()) == (code, answer["ready"], blocking(answer))
    warned = {it["name"] for it in answer["checks"] if not it["passed"]}
    assert {"survives-a-broker", "heartbeat-age"} >= warned >= {"survives-a-broker"}
    assert [("billing", 0)] == [(it["group"], it["duplicates"]) for it in answer["groups"]]


def test_a_flow_that_never_ran_is_not_ready(story: Story) -> None:
    """In neither mode."""
    for station in ("never ran", "never ran, source dead"):
        code, answer = story.answers[station]
        assert (1, False) == (code, answer["ready"])
        assert "flow-has-run" in blocking(answer)


def test_a_source_that_lives_is_not_dead(story: Story) -> None:
    """And nothing else is wrong."""
    code, answer = story.answers["source alive"]
    assert (1, {"source-silent"}) == (code, blocking(answer))


def test_the_canary_arrives(story: Story) -> None:
    """In seconds, through cycles that run meanwhile."""
    _, answer = story.answers["canary"]
    (canary,) = (it for it in answer["checks"] if it["name"] == "canary")
    assert canary["passed"], canary["message"]


def test_lag_and_a_group_that_moved_forbid_it(story: Story) -> None:
    """Until a cycle has copied the one and passed on the other."""
    code, answer = story.answers["lag"]
    assert 1 == code
    assert {"lag-records", "final-group-pass"} <= blocking(answer)
    risk = {it["topic"]: it for it in answer["topics"]}
    assert (5, "gold") == (risk["payments"]["records"], risk["payments"]["tier"])
    assert risk["payments"]["bytes"] > 0
    assert (0, True) == (story.answers["caught up"][0], story.answers["caught up"][1]["ready"])


def test_all_that_both_sides_hold_is_proved(story: Story) -> None:
    """What was copied after the last audit, too, once producers have stopped."""
    assert {"audit-promised"} == blocking(story.answers["not audited since"][1])


def test_schemas_that_were_not_copied_yet_forbid_it(story: Story) -> None:
    """The registry's topic is compared by its keys; the third one is new."""
    passed = {
        station: check["passed"]
        for station in ("ready", "lag", "caught up")
        for check in story.answers[station][1]["checks"]
        if check["name"] == "schema-parity"
    }
    assert {"ready": True, "lag": False, "caught up": True} == passed
    assert "schema-parity" in blocking(story.answers["lag"][1])


def test_status_tells_what_is_at_risk(story: Story) -> None:
    """Per topic, against its tier; and what it was over the last day."""
    _, document = story.answers["status"]
    (flow,) = document["flows"]
    tiers = {it["topic"]: (it["tier"], it["rpo_budget_seconds"]) for it in flow["topics"]}
    assert {"orders": ("", 300), "payments": ("gold", 60)}.items() <= tiers.items()
    assert flow["risk_history"]


def test_a_lost_source_is_no_planned_failover(story: Story) -> None:
    """Every check says that it was not made, and why."""
    code, answer = story.answers["source lost, planned"]
    assert (1, False) == (code, answer["ready"])
    assert {"not checked"} == {it["observed"] for it in answer["checks"]}


def test_a_lost_source_is_judged_from_the_target(story: Story) -> None:
    """Ready, with the age of every number."""
    code, answer = story.answers["source lost"]
    assert (0, True) == (code, answer["ready"]), blocking(answer)
    ages = {it["name"]: it["age_seconds"] for it in answer["checks"]}
    assert 0 == ages["copy-not-cut-off"] < ages["known-rpo"] < 600
    assert 0 < ages["group-covered"] < 600


def test_what_is_accepted_is_shown_and_taken_back(story: Story) -> None:
    """By whom, why, until when."""
    assert [0, 0, 0] == [story.answers[it][0] for it in ("accepted", "list", "withdrawn")]
    assert [("audit-coverage", login(), "drill")] == [
        (it["check"], it["by"], it["reason"]) for it in story.answers["list"][1]["accepted"]
    ]
    (check,) = (
        it for it in story.answers["source lost, accepted"][1]["checks"] if it["name"] == "audit-coverage"
    )
    assert (False, [login()]) == (check["passed"], [it["by"] for it in check["waived"]])
    assert [] == story.answers["withdrawn"][1]["accepted"]


def test_evidence_is_verified_by_us_and_by_others(story: Story, tmp_path: Path, capsys) -> None:
    """An independent script agrees; a changed file and another key are refused."""
    public = str(story.keys[1])
    for station in ("ready", "source lost"):
        evidence = story.answers[station][1]["evidence"]
        assert 0 == main(["evidence", "verify", evidence, "--key", public])
        by_script = [sys.executable, "-I", str(VERIFIER), evidence, public]
        assert subprocess.run(by_script, capture_output=True, text=True, check=True).stdout.endswith(
            ": ready\n"
        )
    changed = tmp_path / "changed.json"
    changed.write_text(Path(story.answers["ready"][1]["evidence"]).read_text().replace("billing", "BILLING"))
    capsys.readouterr()
    assert 1 == main(["evidence", "verify", str(changed), "--key", public])
    assert "was changed after it was signed" in capsys.readouterr().err
    assert 1 == main(["evidence", "verify", story.answers["lag"][1]["evidence"], "--key", public])
    assert "was signed by another key" in capsys.readouterr().err


@pytest.fixture
def browser() -> Iterator:
    """Headless Chromium without a network: every request that is not a file's is an error."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.browser
@pytest.mark.parametrize("station", ["ready", "lag", "source lost, accepted"])
def test_pages_are_read_without_internet(story: Story, browser, tmp_path: Path, station: str) -> None:
    """The gate's page asks nobody for anything, and sticks out of no window."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    answer = story.answers[station][1]
    page.goto(Path(answer["page"]).as_uri())
    assert ("NOT READY" in page.locator("h1").inner_text()) is not answer["ready"]
    page.screenshot(path=tmp_path / "gate.png", full_page=True)
    assert [] == [url for url in asked if not url.startswith(("file:", "data:"))]
    assert [] == errors
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()
