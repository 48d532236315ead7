"""A process that follows tells when its file changes, once, and goes on with what it has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.cli.replication import config_watch
from twinlog.cli.replication.config_watch import ConfigWatch

TEXT = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that can be used."""
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT)
    return path


@pytest.fixture
def watch(file: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigWatch:
    """A watch that looks whenever it is asked."""
    monkeypatch.setattr(config_watch, "LOOK_SECONDS", 0.0)
    return ConfigWatch.of(file)


def test_another_value_is_told_once(watch: ConfigWatch, file: Path) -> None:
    """With its key; comments and order are no news."""
    file.write_text("# written anew\n" + "\n".join(reversed(TEXT.splitlines())) + "\n")
    assert "" == watch.news()
    file.write_text(TEXT + "A->B.topics = orders\ntasks.max = 2\n")
    expected = "mm2.properties has changed (A->B.topics, tasks.max): restart this process to take it up"
    assert [expected, ""] == [watch.news(), watch.news()]
    file.write_text(TEXT)
    assert "" == watch.news()
    file.write_text(TEXT.replace("a:9092", "c:9092"))
    assert "(A.bootstrap.servers)" in watch.news()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT + "A->B.twinlog.rpo.seconds = soon\n", "soon"),
        (TEXT + "x = \\u12\n", "is no character"),
        (None, ""),
    ],
    ids=["a wrong value", "no properties", "gone"],
)
def test_a_file_that_cannot_be_used_is_told_once(
    watch: ConfigWatch, file: Path, text: str | None, why: str
) -> None:
    """With its reason; and the process goes on."""
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    said = watch.news()
    assert said.startswith(
        "mm2.properties cannot be used as it is now, so this process goes on with what it has read"
    )
    assert why in said
    assert "\n" not in said
    assert "" == watch.news()


def test_it_looks_now_and_then_only(file: Path) -> None:
    """A file may lie on a slow disk."""
    watch = ConfigWatch.of(file)
    file.write_text(TEXT + "tasks.max = 2\n")
    assert "" == watch.news()
