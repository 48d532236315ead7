"""What a JVM that twinlog starts is told."""

from twinlog.spark.session import QUICK_COMPILER, local_address, submit_options


def test_whoever_has_chosen_options_keeps_them() -> None:
    """Also when there are none."""
    assert {"SPARK_SUBMIT_OPTS": QUICK_COMPILER} == submit_options({"PATH": "/bin"})
    assert {} == submit_options({"SPARK_SUBMIT_OPTS": "-Xmx8g"}) == submit_options({"SPARK_SUBMIT_OPTS": ""})


def test_only_a_local_master_is_kept_to_this_machine() -> None:
    """Executors of any other one come from elsewhere; an address that somebody has chosen stays."""
    assert {"SPARK_LOCAL_IP": "127.0.0.1"} == local_address("local[2]", {"PATH": "/bin"})
    assert {} == local_address("local[2]", {"SPARK_LOCAL_IP": "10.0.0.7"})
    assert {} == local_address("spark://spark:7077", {})
