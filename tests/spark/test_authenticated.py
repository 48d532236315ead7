"""Who may talk to Spark, on real ones: this run's own processes, who has the master's secret, who has the token.

Each session is a process of its own.  Costs about three minutes on two idle cores, JVM starts included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SESSION = """
import subprocess, sys
from twinlog.errors import TwinlogError
from twinlog.spark.lane_task import start_worker
from twinlog.spark.lane_task import SCHEMA
from twinlog.spark.session import session
try:
    with session(sys.argv[1]) as spark:
        spark.range(0, 1, 1, 1).mapInArrow(start_worker, SCHEMA).collect()
        {inside}
except TwinlogError as error:
    print("code", error.code, error)
"""

STRANGER = """
        jvm, conf = spark.sparkContext._jvm, spark.sparkContext.getConf()
        nobody = jvm.SparkConf(False)
        security = jvm.org.apache.spark.SecurityManager
        third = getattr(security, "$lessinit$greater$default$3")()
        guard = security(nobody, jvm.scala.Option.empty(), third)
        guest = jvm.org.apache.spark.rpc.RpcEnv.create("guest", "127.0.0.1", 0, nobody, guard, True)
        driver = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(conf.get("spark.driver.port")))
        try:
            guest.setupEndpointRef(driver, "BlockManagerMaster")
            print("stranger let in")
        except Exception as error:
            print("stranger refused", "SaslMessage" in str(error))
        print({key: conf.get(key) for key in ("spark.authenticate", "spark.network.crypto.enabled")})
"""

SEEN = """
        conf = spark.sparkContext.getConf()
        listing = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
        print("opened", conf.get("spark.authenticate"), conf.get("spark.authenticate.secret") in listing)
"""


def run(master: str, inside: str = "print('opened')", **variables: str) -> str:
    """Open a session in a process of its own, and return what it says last."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION.format(inside=inside.strip()), master],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ | variables,
    )  # fmt: skip
    assert done.stdout, done.stderr[-3000:]
    assert "ab+c/d" not in done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_local_session_lets_no_stranger_in() -> None:
    """A secret of this run: another process of this machine is refused at the driver's port."""
    said = run("local[1]", STRANGER)
    assert "stranger refused True" in said
    assert "{'spark.authenticate': 'true', 'spark.network.crypto.enabled': 'true'}" in said


@pytest.mark.long
def test_without_it_a_stranger_is_let_in(conf_dir: Callable[..., str]) -> None:
    """What the test above would see if nothing was set; Spark's own key says so, and is followed."""
    conf = conf_dir("open", authenticate="false", network__crypto__enabled="false")
    assert "stranger let in" in run("local[1]", STRANGER, SPARK_CONF_DIR=conf)


@pytest.mark.long
def test_a_standalone_master_takes_who_has_its_secret(
    standalone_master: str, conf_dir: Callable[..., str], tmp_path: Path
) -> None:
    """The secret stands on no command line; without it nothing is begun, with another one the master refuses."""
    assert "opened true False" in run(standalone_master, SEEN)
    none = run(standalone_master, SPARK_CONF_DIR=str(tmp_path))
    assert "code spark-secret" in none
    other = conf_dir("other", authenticate="true", authenticate__secret="wrong")
    assert "code spark-session" in run(standalone_master, SPARK_CONF_DIR=other)


def test_a_connect_server_takes_who_has_its_token(guarded_server: tuple[str, str]) -> None:
    """In the address as it is, or in Spark's variable; a wrong one is final, and quoted nowhere."""
    here, token = guarded_server
    assert "opened" in run(f"{here}/;token={token}")
    assert "opened" in run(here, SPARK_CONNECT_AUTHENTICATE_TOKEN=token)
    assert "code spark-secret" in run(here)
    assert "code spark-secret" in run(f"{here}/;token=wrong")
