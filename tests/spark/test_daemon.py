"""The parent of Spark's Python workers keeps every path but those of Spark's own archives."""

import sys

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


def test_nothing_is_remembered_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import system reads the directory of every zip it has looked into at each invalidation."""
    importers = {"/usr/lib/python3.11": None, "/opt/spark/python/lib/pyspark.zip": None}
    monkeypatch.setattr(sys, "path", ["", *importers])
    monkeypatch.setattr(sys, "path_importer_cache", dict(importers))
    forget_sparks_zips()
    assert (["", "/usr/lib/python3.11"], {"/usr/lib/python3.11": None}) == (sys.path, sys.path_importer_cache)
