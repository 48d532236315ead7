"""What a JVM that twinlog starts is told."""

from twinlog.spark.jvm import QUICK_COMPILER, submit_options


def test_whoever_has_chosen_options_keeps_them() -> None:
    """Also when there are none."""
    assert {"SPARK_SUBMIT_OPTS": QUICK_COMPILER} == submit_options({"PATH": "/bin"})
    assert {} == submit_options({"SPARK_SUBMIT_OPTS": "-Xmx8g"}) == submit_options({"SPARK_SUBMIT_OPTS": ""})
