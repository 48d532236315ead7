"""The pages in Airflow's UI: who may see them, and how they look."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

ADDRESSES = [
    "/twinlog/",
    "/twinlog/flow/east__west",
    "/twinlog/flow/east__west/reports/gate/x/gate.html",
    "/twinlog/flow/nothing",
    "/twinlog/status.json",
]


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


FLOWS = (
    *("east->west", "west->east", "upper->lower", "left->right"),
    *("north->south", "south->north", "day->night"),
)
"""The flows of the scheduler's file."""


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_without_a_login(scheduler, address: str) -> None:
    """Airflow leaves a plugin's addresses open: ours ask, and show nothing."""
    status, body = get(scheduler.api.url + address)

    assert 401 == status
    assert "replicate__" not in body


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_bad_token_is_no_login(scheduler, address: str) -> None:
    """Neither as a header nor as the UI's cookie."""
    assert get(scheduler.api.url + address, Authorization="Bearer nonsense")[0] in {401, 403}
    assert get(scheduler.api.url + address, Cookie="_token=nonsense")[0] in {401, 403}


@pytest.mark.parametrize("address", ["/twinlog/docs", "/twinlog/redoc", "/twinlog/openapi.json"])
def test_no_back_door(scheduler, address: str) -> None:
    """What FastAPI would offer by itself does not ask who is there, and is off."""
    assert 404 == get(scheduler.api.url + address)[0]


def test_json_for_those_who_are_logged_in(scheduler) -> None:
    """Every flow with its Dag and its state, once every one was read."""

    def read() -> str | None:
        status, body = get(
            f"{scheduler.api.url}/twinlog/status.json", Authorization=f"Bearer {scheduler.api.token}"
        )
        return body if status == 200 else None

    flows = {flow["flow"]: flow for flow in json.loads(scheduler.wait("a reading", read))["flows"]}
    assert {name: f"replicate__{name.replace('->', '__')}" for name in FLOWS} == {
        name: flow["dag_id"] for name, flow in flows.items()
    }
    assert all(not flow["error"] for flow in flows.values())


@pytest.mark.browser
def test_pages_inside_airflows_ui(scheduler, browser, tmp_path: Path) -> None:
    """A nav entry leads to every flow, and on to one's own page; nothing is asked of other hosts, nothing breaks."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.add_cookies([{"name": "_token", "value": scheduler.api.token, "url": scheduler.api.url}])
    page = context.new_page()
    asked: list[str] = []
    failures: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda answer: failures.append(answer.url) if answer.status >= 400 else None)
    page.on("console", lambda line: failures.append(line.text) if "Content Security" in line.text else None)

    page.goto(f"{scheduler.api.url}/plugin/replication", wait_until="load")
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="twinlog").wait_for(timeout=60_000)
    frame.get_by_role("link", name="east→west").click(timeout=60_000)
    frame.get_by_role("heading", name="Reports").wait_for(timeout=60_000)
    frame.get_by_role("heading", name="Readiness").wait_for(timeout=60_000)  # the page has renewed itself
    assert "east→west" == frame.locator("h1").inner_text()
    frame.get_by_role("link", name="All flows").click()
    frame.get_by_role("heading", name="west→east").wait_for(timeout=60_000)
    titles = {title.strip() for title in frame.locator("h2").all_inner_texts()}
    assert {name.replace("->", "→") for name in FLOWS} == titles
    assert [] == [url for url in failures if "/twinlog" in url or "Content Security" in url]
    page.screenshot(path=tmp_path / "pages-in-airflow.png")

    for address in ("/twinlog/", "/twinlog/flow/east__west"):
        asked.clear()
        page.set_viewport_size({"width": 1400, "height": 900})
        page.goto(f"{scheduler.api.url}{address}", wait_until="load")
        assert [f"{scheduler.api.url}{address}"] == [url for url in asked if not url.startswith("data:")]
        paper = {}
        for theme in ("light", "dark"):  # Airflow's own switch, which the page follows
            page.evaluate(f"localStorage.setItem('theme', '{theme}'); theme()")
            paper[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert {"light": "rgb(246, 247, 249)", "dark": "rgb(15, 20, 27)"} == paper
        # Text does not stick out of the window, also of a narrow one.
        page.set_viewport_size({"width": 420, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.keyboard.press("Tab")
        assert "To the content" == page.evaluate("document.activeElement.innerText")
