"""What protects passwords on their way to Spark's tasks, decided."""

from __future__ import annotations

import pytest

from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import ConnectionSettings, SaslSettings, TlsSettings
from twinlog.errors import ConfigError
from twinlog.spark.protection import PROTECTED, connect_url, protection, require_safe_way, without_tokens

OPEN = ConnectionSettings("A", (("a", 1),))
LOGIN = ConnectionSettings("A", (("a", 1),), sasl=SaslSettings("PLAIN", "me", Secret("hunter2")))
KEY = ConnectionSettings("A", (("a", 1),), tls=TlsSettings(key_pem=Secret("-----BEGIN")))
TOKEN = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "t"}


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,4]", "yarn", "k8s://https://k:443"]
)
def test_where_spark_makes_a_secret_for_each_run_it_is_used(master: str) -> None:
    """Authenticated and encrypted, on the network and on the disk, unless somebody chose."""
    assert PROTECTED == protection(master, {})
    assert {"spark.authenticate": "true"} == protection(master, PROTECTED | {}) | {
        "spark.authenticate": "true"
    }


def test_a_standalone_master_shares_its_secret_with_everybody() -> None:
    """Without one nothing is sent; the message says where it goes, and where it must not be seen."""
    with pytest.raises(
        ConfigError, match=r"spark://s:7077 has no spark.authenticate.secret.*spark-defaults"
    ) as caught:
        protection("spark://s:7077", {"spark.authenticate": "true"})
    assert "spark-secret" == caught.value.code
    assert PROTECTED == protection("spark://s:7077", {"spark.authenticate.secret": "x"})


def test_spark_may_be_told_to_go_without(caplog: pytest.LogCaptureFixture) -> None:
    """By Spark's own key, which is said in the log; the disk is still encrypted."""
    chosen = {"spark.authenticate": "false"}
    assert {"spark.io.encryption.enabled": "true"} == protection("spark://s:7077", chosen)
    assert "authenticates nobody" in caplog.text


@pytest.mark.parametrize(
    ("master", "environ", "missing"),
    [
        ("sc://spark:15002", {}, "no token and no TLS"),
        ("sc://spark:15002/;use_ssl=true", {}, "no token"),
        ("sc://spark:15002/;authorization=Bearer%20t", {}, "no TLS"),
        ("sc://spark:15002/;use_ssl=true;token=t", {}, ""),
        ("sc://spark:15002/;token=t", {}, ""),
        ("sc://spark:15002", TOKEN, ""),
        ("sc://[fe80::1]:15002/;use_ssl=false", {}, "no token and no TLS"),
        ("sc://localhost.example:15002", {}, "no token and no TLS"),
        ("sc://127.0.0.1.example:15002", {}, "no token and no TLS"),
        ("sc://localhost:15002/;token=t", {}, ""),
        ("sc://localhost", {}, ""),
        ("sc://127.0.0.1:15002", {}, ""),
        ("sc://[::1]:15002", {}, ""),
        ("local[2]", {}, ""),
        ("", {}, ""),
    ],
)
@pytest.mark.parametrize("connection", [LOGIN, KEY])
def test_no_password_goes_to_a_connect_server_in_clear_or_to_anybody(
    connection: ConnectionSettings, master: str, environ: dict[str, str], missing: str
) -> None:
    """Over a network it needs both, the token and TLS; on this machine there is a warning."""
    if not missing:
        require_safe_way(master, [OPEN, connection], environ)
        return
    with pytest.raises(ConfigError, match=f"has {missing}, and") as caught:
        require_safe_way(master, [OPEN, connection], environ)
    assert ("spark-exposed", False) == (caught.value.code, "Bearer" in str(caught.value))


def test_where_nothing_is_secret_nothing_is_asked() -> None:
    """A flow between clusters without logins has nothing to lose."""
    require_safe_way("sc://spark:15002", [OPEN, OPEN], {})


def test_a_server_on_this_machine_without_a_token_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Others may be on it; it is said once, not with each window of a flow."""
    require_safe_way("sc://localhost:7", [LOGIN], TOKEN)
    assert "" == caplog.text
    for _ in range(2):
        require_safe_way("sc://localhost:7", [LOGIN], {})
    assert 1 == caplog.text.count("sc://localhost:7 asks for no token")


def test_a_token_may_hold_any_sign() -> None:
    """PySpark splits options at each, takes a slash for a path, and would quote the token in its error."""
    assert "sc://h:1/;use_ssl=true;token=ab%2Fc%3D%3D" == connect_url("sc://h:1/;use_ssl=true;token=ab/c==")
    assert "sc://h:1/;token=ab%2Fc%3D%3D" == connect_url("sc://h:1;token=ab%2Fc%3D%3D")
    assert "sc://h:1" == connect_url("sc://h:1")


def test_a_token_on_this_machine_needs_no_certificate() -> None:
    """PySpark uses TLS with a token, except to `localhost` by that name."""
    assert "sc://localhost:1/;token=t" == connect_url("sc://127.0.0.1:1/;token=t")
    assert "sc://127.0.0.1:1/;use_ssl=true;token=t" == connect_url("sc://127.0.0.1:1/;use_ssl=true;token=t")
    assert "sc://127.0.0.1.example:1" == connect_url("sc://127.0.0.1.example:1")


def test_no_message_of_spark_quotes_a_token() -> None:
    """In whichever form it was given."""
    said = "no ab%2Bc== ab+c== ab%2Bc%3D%3D e=nv"
    hidden = without_tokens(
        said, "sc://h:1/;use_ssl=true;token=ab%2Bc==", {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "e=nv"}
    )
    assert "no [hidden] [hidden] [hidden] [hidden]" == hidden
