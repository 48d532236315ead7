"""A failover by a person in Airflow's pages: the form, the request, the report.  docs/images are made of this."""

from __future__ import annotations

from pathlib import Path

import pytest
from there_and_back import ThereAndBack, records

from lab import commit_group, produce
from twinlog.formats.ledger.records import FlowPhase

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.browser, pytest.mark.long]

DAG = "failover__north__south"
SECONDS = 90_000
"""How long a page may take on a busy machine, in ms."""


def test_a_person_sees_what_will_happen_and_what_was_done(
    scheduler, cluster_a, cluster_b, browser, tmp_path: Path
) -> None:
    """The form is sent with a click, the request shows the numbers, and a click promotes the target."""
    world = ThereAndBack(scheduler, cluster_a, cluster_b)
    scheduler.api.pause(DAG, paused=False)
    world.begin()
    produce(cluster_a, world.topic, records(20, 5))
    commit_group(cluster_a, world.group, world.topic, 25)
    url = scheduler.api.url
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.add_cookies([{"name": "_token", "value": scheduler.api.token, "url": url}])
    page = context.new_page()
    page.set_default_timeout(SECONDS)

    page.goto(f"{url}/dags/{DAG}", wait_until="load")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    form.get_by_text("Groups at").wait_for()
    page.wait_for_timeout(1000)  # it moves into its place
    page.screenshot(path=tmp_path / "airflow-failover-form.png")
    form.get_by_role("button", name="Trigger", exact=True).click()
    (run,) = scheduler.wait(
        "the run", lambda: [it for it in scheduler.api.runs(DAG) if it["state"] in {"queued", "running"}]
    )
    run_id = run["dag_run_id"]

    scheduler.asked(DAG, run_id)
    page.goto(f"{url}/dags/{DAG}/runs/{run_id}/tasks/approve/required_actions", wait_until="load")
    yes = page.get_by_role("button", name="Approve")
    yes.wait_for()
    assert f"5 of {world.topic}-0" in page.locator("body").inner_text()
    page.screenshot(path=tmp_path / "airflow-failover-approval.png")
    yes.click()

    assert {"success"} == set(scheduler.finish(DAG, run_id, timeout_s=900).values())
    assert FlowPhase.PROMOTED is world.ledger(world.there).phase
    page.goto(f"{url}/dags/{DAG}/runs/{run_id}/tasks/report", wait_until="load")
    page.get_by_text("Storage").click()
    page.get_by_text("return_value").first.wait_for()
    page.wait_for_timeout(2000)
    page.screenshot(path=tmp_path / "airflow-failover-report.png")

    def shown() -> bool:
        page.goto(f"{url}/twinlog/flow/north__south", wait_until="load")
        return "failover-" in page.locator("body").inner_text()

    scheduler.wait("the journal on the flow's page", shown)
    page.screenshot(path=tmp_path / "airflow-failover-journal.png", full_page=True)
    context.close()
    world.go_home()
