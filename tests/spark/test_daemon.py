"""The parent of Spark's Python workers keeps every path but those of Spark's own archives."""

import sys
from pathlib import Path

import pytest

from twinlog.spark.daemon import forget_sparks_zips, without_sparks_zips


def test_only_sparks_own_archives_are_left_out() -> None:
    """A user's archive, and a folder that is merely called so, stay."""
    kept = ["/usr/lib/python3.11", "/data/rules.zip", "/data/pyspark.zip.d", "my-pyspark.zip"]
    sparks = [
        "/opt/spark/python/lib/pyspark.zip",
        "/opt/spark/python/lib/py4j-0.10.9.9-src.zip",
        "pyspark.zip",
    ]
    assert kept == without_sparks_zips([*sparks, *kept])


def test_nothing_is_remembered_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The import system reads the directory of every zip it has looked into at each invalidation."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/opt/spark/python/lib/pyspark.zip"])
    monkeypatch.setattr(sys, "path_importer_cache", {"/opt/spark/python/lib/pyspark.zip": None})
    forget_sparks_zips()
    assert ["", str(tmp_path)] == sys.path
    assert "/opt/spark/python/lib/pyspark.zip" not in sys.path_importer_cache


def test_they_stay_where_nothing_else_has_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine whose Python has all but pyspark."""
    path = [str(tmp_path), "/opt/spark/python/lib/pyspark.zip"]
    monkeypatch.setattr(sys, "path", list(path))
    forget_sparks_zips()
    assert path == sys.path
