"""Spark masters, looked at before Spark is."""

import socket

import pytest

from twinlog.errors import TransientError, UsageError
from twinlog.spark.session import check_master


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "yarn", "k8s://https://host", "spark://a:1,b:1"]
)
def test_masters_that_cannot_be_tried_are_left_to_spark(master: str) -> None:
    """Nothing is contacted."""
    check_master(master)


@pytest.mark.parametrize("master", ["nonsense", "", "localhost:7077", "http://host"])
def test_what_is_no_master_is_wrong_usage(master: str) -> None:
    """The hint shows what one looks like."""
    with pytest.raises(UsageError, match=r"is no Spark master; such as local\[2\]"):
        check_master(master)


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_where_nothing_listens_is_refused_at_once(scheme: str) -> None:
    """Spark would try for a minute and more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"{scheme}://127.0.0.1:{port}")
    with pytest.raises(TransientError, match=f"no Spark session on {scheme}://127.0.0.1:{port}"):
        check_master(f"{scheme}://127.0.0.1:{port}")


def test_a_token_is_not_shown() -> None:
    """`sc://host:port/;token=x` is tried at host:port, and the error is silent about the rest."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"sc://127.0.0.1:{server.getsockname()[1]}/;token=s3cret"
        check_master(master)
    with pytest.raises(TransientError) as caught:
        check_master(master)
    assert "s3cret" not in f"{caught.value} {caught.value.data}"
