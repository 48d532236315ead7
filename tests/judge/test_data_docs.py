"""Data Docs ask no other host for anything."""

import re

import pytest

from twinlog.judge.check import Check, Relation, Severity, Suite
from twinlog.judge.data_docs import offline, write_data_docs
from twinlog.judge.great_expectations import validate

SUITE = Suite(
    "topics",
    "topic",
    ("topic",),
    (
        Check("even", Severity.CRITICAL, "left", Relation.EQUAL, "right", "both are equal", "make them so"),
        Check("few", Severity.WARNING, "left", Relation.AT_MOST, 5, "there are few", "take some away"),
    ),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of a suite with a broken check, by file name."""
    rows = [{"topic": "<b>orders</b>", "left": 1, "right": 2}, {"topic": "users", "left": 3, "right": 3}]
    index = write_data_docs(tmp_path_factory.mktemp("docs"), "A->B, cycle 1", [validate(SUITE, rows)])
    return {page.name: page.read_text() for page in index.parent.iterdir()}


def test_there_is_a_page_a_suite_and_an_index(pages):
    """The index links to the pages and says what is broken."""
    assert {"index.html", "topics.html"} == set(pages)
    assert 'href="topics.html"' in pages["index.html"]
    assert "even (critical)" in pages["index.html"]
    assert "<title>A-&gt;B, cycle 1</title>" in pages["index.html"]


def test_no_page_asks_another_host(pages):
    """Neither scripts, styles, images nor fonts."""
    for page in pages.values():
        assert [] == re.findall(
            r'(?:src|href)="(?:https?:)?//[^"]*"|url\(|@import|<link (?!rel="icon")', page
        )


def test_great_expectations_content_is_there(pages):
    """What it expected, what it found where, and our words for it."""
    page = pages["topics.html"]
    for words in ("even: both are equal", "few: there are few", "Unexpected"):
        assert words in page
    assert "<b>orders</b>" not in page


def test_a_page_of_another_build_is_refused():
    """A later Great Expectations that draws otherwise must not give an empty page."""
    with pytest.raises(ValueError, match="no content"):
        offline("<html><body>nothing known</body></html>")
