"""The parent of Spark's Python workers keeps every path but those of Spark's own archives."""

from twinlog.spark.daemon import without_sparks_zips


def test_only_sparks_own_archives_are_left_out() -> None:
    """A user's archive, and a folder that is merely called so, stay."""
    kept = ["/usr/lib/python3.11", "/data/rules.zip", "/data/pyspark.zip.d", "my-pyspark.zip"]
    sparks = [
        "/opt/spark/python/lib/pyspark.zip",
        "/opt/spark/python/lib/py4j-0.10.9.9-src.zip",
        "pyspark.zip",
    ]
    assert kept == without_sparks_zips([*sparks, *kept])
