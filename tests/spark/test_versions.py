"""A PySpark that cannot be used is one line, before anything is started."""

from __future__ import annotations

import pytest

from twinlog.cli.main import main
from twinlog.errors import UsageError
from twinlog.spark import versions

CONNECT, LOCAL = "sc://127.0.0.1:15002", "local[2]"


@pytest.mark.parametrize(
    ("spark", "client", "found", "master", "said"),
    [
        ("4.2.0", "4.2.0", True, LOCAL, None),
        ("4.3.0", None, True, LOCAL, None),
        (None, None, True, "", None),
        (None, "4.2.0", True, CONNECT, None),
        (None, "4.2.0", True, LOCAL, "pip install 'twinlog\\[spark\\] @ file"),
        (None, None, False, CONNECT, "pip install 'twinlog\\[spark\\] @ file"),
        (
            "4.3.0",
            "4.2.0",
            True,
            LOCAL,
            "pyspark 4.3.0 and pyspark-client 4.2.0 lie in one folder.*pyspark==4.2.0",
        ),
    ],
)
def test_which_pyspark_will_do(
    monkeypatch: pytest.MonkeyPatch,
    spark: str | None,
    client: str | None,
    found: bool,
    master: str,
    said: str | None,
) -> None:
    """The whole of it, spark-submit's own, or for a Connect server its client; two only in one version."""
    monkeypatch.setattr(versions, "installed", {"pyspark": spark, "pyspark-client": client}.get)
    monkeypatch.setattr(versions, "find_spec", lambda _: object() if found else None)
    if said is None:
        versions.require_spark(master)
        return
    with pytest.raises(UsageError, match=said):
        versions.require_spark(master)


def test_a_user_without_a_name_cannot_start_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's pages do not say so; a Connect server has a user of its own."""
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(UsageError, match="user 54321, who has no name"):
        versions.require_spark(LOCAL)
    versions.require_spark(CONNECT)


def test_the_command_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, before anything is started."""
    monkeypatch.setattr(versions, "installed", {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}.get)
    assert 2 == main(["machine", "spark", "start"])
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: pyspark 4.3.0 and pyspark-client 4.2.0 lie in one folder")
