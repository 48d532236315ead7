"""The alert rules, the dashboard and the example for Prometheus hold to the metrics that the code declares."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from twinlog.duties.plan import DutyName
from twinlog.facts.gaps import GapState
from twinlog.formats.ledger.records import GapCause
from twinlog.groups.report import SyncState
from twinlog.judge.check import Severity
from twinlog.monitoring.metrics import METRICS, Metric, Part
from twinlog.shipped import folder
from twinlog.topics.discovery import BLOCKING

FOLDER = folder("config") / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"][0]["rules"]
TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())

EXPORTED = {it.exported: it for it in METRICS.values() if it.part is not Part.GATE}
"""Those of the gate are gauges of Airflow alone."""

OF_SCRAPING = {"instance", "job"}

VALUES = {
    ("failed_checks", "severity"): {it.value for it in Severity},
    ("gap_records", "state"): {
        "stopped",
        "passed",
        *(it.value for it in GapState if it is not GapState.OPEN),
    },
    ("gap_records", "cause"): {it.value for it in GapCause},
    ("group_positions", "state"): {it.value for it in SyncState},
    ("blocked_topics", "reason"): {it.value for it in BLOCKING},
    ("duty_failed", "duty"): {it.value for it in DutyName},
}
"""The values of a label, where they are few."""


def wrong_in(expression: str) -> list[str]:
    """Return what an expression names that no metric has: a metric, a label, or the value of a label."""
    wrong = []
    for name, selector in re.findall(r"\b(twinlog_\w+)(\{[^}]*\})?", expression):
        if name not in EXPORTED:
            wrong.append(name)
            continue
        for label, how, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector):
            wrong += [f"{name}{{{label}}}"] * (label not in labels_of(EXPORTED[name]) | OF_SCRAPING)
            known = VALUES.get((EXPORTED[name].name, label), {value})
            wrong += [f'{name}{{{label}="{value}"}}'] * ("~" not in how and value not in known)
    for by, name in re.findall(r"(?=\bby \(([^)]*)\).*?(twinlog_\w+))", expression):
        known = labels_of(EXPORTED[name]) if name in EXPORTED else set()
        wrong += [f"{name} by {label}" for label in by.split(", ") if label not in known]
    return wrong


def labels_of(metric: Metric) -> set[str]:
    return {"flow", *metric.labels}


def queries(it: Any) -> Iterator[str]:
    """Every PromQL expression of the dashboard, and of its variables."""
    if isinstance(it, list):
        for each in it:
            yield from queries(each)
    elif isinstance(it, dict):
        for key, value in it.items():
            if key in {"expr", "definition"}:
                yield value
            else:
                yield from queries(value)


def promtool(*words: str) -> str:
    """Run Prometheus' own checker, and return what it complains about; "" if that is nothing."""
    beside = Path(sys.executable).with_name("promtool")  # where .ci/prometheus unpacks it
    found = shutil.which("promtool") or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip("needs promtool (.ci/prometheus, or Debian: apt-get install prometheus)")
    done = subprocess.run([found, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("twinlog_lag > 0", "twinlog_lag"),
        ("twinlog_gate_ready == 0", "twinlog_gate_ready"),
        ('twinlog_leads{topic="a"}', "twinlog_leads{topic}"),
        ('twinlog_group_positions{state="odd"}', 'twinlog_group_positions{state="odd"}'),
        ("max by (flow) (sum by (flow, topic) (twinlog_leads))", "twinlog_leads by topic"),
    ],
)
def test_the_search_for_what_is_wrong_finds_it(expression: str, wrong: str) -> None:
    """Otherwise the tests below could not fail."""
    assert [wrong] == wrong_in(expression)


@pytest.mark.parametrize("rule", RULES, ids=lambda it: it["alert"])
def test_a_rule_asks_for_what_is_declared(rule: dict[str, Any]) -> None:
    """And its text names only labels that its alert has; `by` says which those are."""
    assert [] == wrong_in(rule["expr"])
    text = " ".join(rule["annotations"].values())
    named = set(re.findall(r"\$labels\.(\w+)", text))
    assert "flow" in named
    assert set() == named - set(re.findall(r"by \(([^)]*)\)", rule["expr"])[0].split(", "))
    assert {"summary", "description"} == rule["annotations"].keys()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_every_rule_is_tested_to_fire() -> None:
    """And the series that its test makes are such as the code exports."""
    fired = re.findall(r'alertname="(\w+)"', json.dumps(TESTS).replace("\\", ""))
    assert {it["alert"] for it in RULES} == set(fired)
    series = [made["series"] for test in TESTS for made in test["input_series"]]
    assert [] == [it for name in series if not name.startswith("up{") for it in wrong_in(name)]


def test_every_rule_is_tested_to_be_over() -> None:
    """One test has all of them fire, and none once all is well again."""
    (both,) = [it for it in TESTS if it["name"].startswith("every alert")]
    fires, over = both["promql_expr_test"]
    assert {it["alert"] for it in RULES} == set(re.findall(r'alertname="(\w+)"', str(fires)))
    assert ("ALERTS", []) == (over["expr"], over["exp_samples"])


def test_the_dashboard_asks_for_what_is_declared() -> None:
    """And shows every metric that Prometheus can have."""
    asked = list(queries(DASHBOARD))
    assert [] == [it for expression in asked for it in wrong_in(expression)]
    assert set(EXPORTED) == set(re.findall(r"twinlog_\w+", " ".join(asked)))


def test_the_dashboards_panels_have_places_of_their_own() -> None:
    """No two panels lie over each other, and none beyond the right edge."""
    taken = [
        (x, y)
        for it in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(it["x"], it["x"] + it["w"])
        for y in range(it["y"], it["y"] + it["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    assert len(DASHBOARD["panels"]) == len({it["id"] for it in DASHBOARD["panels"]})


@pytest.mark.parametrize("file", ["prometheus.yml", "compose.yml"])
def test_prometheus_takes_a_configuration_and_its_rules(file: str) -> None:
    """As Prometheus itself reads them."""
    assert "" == promtool("check", "config", file)


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    """Prometheus' own rule tests, which come with the rules for those who change a threshold."""
    assert "" == promtool("test", "rules", "rules_test.yml")


def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    """Each expression, as rules."""
    expressions = [it.replace("$flow", ".*").replace("$topic", ".*") for it in queries(DASHBOARD)]
    rules = [
        {"record": f"r{number}", "expr": it}
        for number, it in enumerate(expressions)
        if not it.startswith("label_values(")
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert "" == promtool("check", "rules", str(tmp_path / "rules.yml"))
