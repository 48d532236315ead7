"""When a flow is audited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config.flow.load import load
from twinlog.config.flow.settings import Configuration
from twinlog.config.flow.tiers import AuditSettings
from twinlog.errors import ConfigError

Loader = Callable[..., Configuration]


@pytest.fixture
def loaded(tmp_path: Path) -> Loader:
    """`loaded(text)` loads a file of that text."""

    def write_and_load(text: str) -> Configuration:
        path = tmp_path / "mm2.properties"
        path.write_text(text)
        return load(path)

    return write_and_load


MINIMAL = """\
clusters=A, B
A.bootstrap.servers=a:9092
B.bootstrap.servers=b:9092
A->B.enabled=true
"""


def test_defaults(loaded: Loader) -> None:
    """Audited every hour."""
    assert AuditSettings("45 * * * *") == loaded(MINIMAL).flows["A->B"].audit


def test_every_key(loaded: Loader) -> None:
    """Also of one flow alone."""
    flow = loaded(MINIMAL + "A->B.twinlog.audit.schedule=5 * * * *\n").flows["A->B"]
    assert "5 * * * *" == flow.audit.schedule


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("twinlog.audit.schedule=now", "no cron expression"),
        ("twinlog.data.quality.suite=/rules.json", "a Great Expectations checkpoint of your own"),
    ],
)
def test_mistakes_are_named(loaded: Loader, line: str, said: str) -> None:
    """By file, line and key."""
    with pytest.raises(ConfigError) as raised:
        loaded(MINIMAL + line + "\n")
    assert "mm2.properties:5" in str(raised.value) and said in str(raised.value)
