"""A warm Spark: found by its state file, used only if it answers, asks for its token and is of this build."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from twinlog.errors import ConfigError, UsageError
from twinlog.process_id import ProcessId
from twinlog.spark import server as warm
from twinlog.spark.build import BUILD
from twinlog.spark.server import Choice, Health, Server, choose, look
from twinlog.spark.session import check_master


class Answering(grpc.GenericRpcHandler):
    """Answers as a Connect server does, to whom has the token; `asks` says whether it wants one at all."""

    def __init__(self, token: str, *, asks: bool = True) -> None:
        self._header, self._asks = f"Bearer {token}", asks

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        from pyspark.sql.connect.proto import ConfigResponse

        given = dict(details.invocation_metadata).get("authorization", "")

        def answer(_request: bytes, context: grpc.ServicerContext) -> bytes:
            if self._asks and given != self._header:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")
            answer = ConfigResponse()
            answer.pairs.add(key="spark.master", value="local[2]")
            return answer.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


def _served(handler: Answering) -> Iterator[Server]:
    serving = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
    port = serving.add_insecure_port("127.0.0.1:0")
    serving.start()
    yield Server(
        ProcessId.of(os.getpid()), port, "t0ken", "b7e0e3c4-7c4f-4b52-9c53-0f3f0c8f7a11", BUILD, "local[2]"
    )
    serving.stop(None)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that answers whom it should; its process is this one."""
    yield from _served(Answering("t0ken"))


@pytest.fixture
def open_server() -> Iterator[Server]:
    """A server that answers everybody."""
    yield from _served(Answering("t0ken", asks=False))


def test_a_server_that_answers_is_used_if_no_master_is_named(server: Server, tmp_path: Path) -> None:
    """Its address has the token and the session that all cycles share; what is said has not."""
    warm._write(tmp_path, server)
    choice = choose("auto", tmp_path)
    assert (
        f"sc://127.0.0.1:{server.port}/;token=t0ken;user_id=twinlog;session_id={server.session}"
        == choice.master
    )
    assert f"using the warm Spark at sc://127.0.0.1:{server.port}" == choice.line


@pytest.mark.parametrize("named", ["local[4]", "spark://host:7077", "sc://host:15002"])
def test_a_named_master_is_used_whatever_runs_here(server: Server, tmp_path: Path, named: str) -> None:
    """The file, or --master, decides."""
    warm._write(tmp_path, server)
    assert Choice(named) == choose(named, tmp_path)


def test_without_a_server_spark_is_started_and_nothing_is_said(tmp_path: Path) -> None:
    """As before there were warm servers."""
    assert Choice("local[2]") == choose("auto", tmp_path)


def test_the_state_file_is_this_users_alone(server: Server, tmp_path: Path) -> None:
    """It holds the token; what was there before, readable to others, does not lend it its mode."""
    (tmp_path / "server.json").touch(mode=0o644)
    warm._write(tmp_path, server)
    assert 0o600 == stat.S_IMODE((tmp_path / "server.json").stat().st_mode)
    assert server == warm.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"process": {"pid": 1}}', "\x00"])
def test_a_broken_state_file_is_none(tmp_path: Path, text: str) -> None:
    """Then Spark is started as if there were no server."""
    (tmp_path / "server.json").write_text(text)
    assert None is warm.read(tmp_path)


def test_a_dead_one_is_not_used(server: Server, tmp_path: Path) -> None:
    """Also if another process has its id by now."""
    warm._write(tmp_path, replace(server, process=ProcessId(os.getpid(), 1.0)))
    choice = choose("auto", tmp_path)
    why = f"dead: its process {os.getpid()} is gone; twinlog machine spark start"
    assert Choice("local[2]", f"the warm Spark cannot be used, so this copy starts its own: {why}") == choice


def test_another_version_is_not_used(server: Server, tmp_path: Path) -> None:
    """Its workers have other modules loaded: they would refuse the lane, after the fence."""
    warm._write(tmp_path, replace(server, build="0.0.9+abc"))
    choice = choose("auto", tmp_path)
    assert ("local[2]", True) == (choice.master, f"it runs twinlog 0.0.9+abc, this is {BUILD}" in choice.line)


def test_one_that_does_not_listen_any_more_is_dead(server: Server) -> None:
    """The process may live on for a while."""
    with warm.socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        seen = look(replace(server, port=free.getsockname()[1]))
    assert (Health.DEAD, True) == (seen.health, "does not listen any more" in seen.why)


def test_one_that_takes_the_connection_and_is_silent_is_hung(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a suspended process does; it is not waited for longer than that."""
    monkeypatch.setattr(warm, "ANSWER_SECONDS", 0.3)
    with warm.socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        seen = look(replace(server, port=silent.getsockname()[1]))
    assert (Health.HUNG, True) == (seen.health, seen.why.startswith("hung: "))


def test_one_with_another_token_is_not_used(server: Server) -> None:
    """It is not the server of this state file."""
    assert Health.TOKEN is look(replace(server, token="other")).health


def test_one_that_asks_for_no_token_is_not_used(open_server: Server) -> None:
    """Whoever is on the machine could read the passwords that lanes hold."""
    assert Health.TOKEN is look(open_server).health


def test_a_second_one_is_refused(server: Server, tmp_path: Path) -> None:
    """Before anything is started."""
    warm._write(tmp_path, server)
    with pytest.raises(UsageError, match=f"a warm Spark runs already: process {os.getpid()}"):
        warm.start(tmp_path)


def test_two_starts_at_once_are_one(tmp_path: Path) -> None:
    """The second one hears of the first."""
    with (
        warm._alone(tmp_path),
        pytest.raises(warm.TransientError, match="another twinlog machine spark start"),
    ):
        warm.start(tmp_path)


@pytest.mark.parametrize("master", ["auto", "sc://host:15002/;token=t0ken"])
def test_a_server_runs_on_a_spark_and_not_on_another_server(tmp_path: Path, master: str) -> None:
    """And the token of the other one is not shown."""
    with pytest.raises(UsageError, match="cannot run on") as refused:
        warm.start(tmp_path, master)
    assert "t0ken" not in str(refused.value)


def test_no_session_is_opened_on_auto() -> None:
    """It is a word of the configuration, and Spark knows no such master."""
    with pytest.raises(UsageError):
        check_master("auto")


def test_nothing_secret_is_on_the_command_line() -> None:
    """Every user of the machine can read it."""
    assert [] == [key for key in warm.settings(1) if "token" in key or "secret" in key]


WORK = """
import sys
from twinlog.spark.server import choose
from twinlog.spark.session import session
from twinlog.spark.lane_task import SCHEMA, answer

def pid_of_worker(batches):
    import os
    for batch in batches:
        yield answer(os.getppid(), {})

choice = choose("auto")
print(choice.line, file=sys.stderr)
with session(choice.master) as spark:
    print(spark.range(0, 1, 1, 1).mapInArrow(pid_of_worker, SCHEMA).collect()[0]["lane"])
"""


def _work(folder: Path) -> tuple[str, str]:
    """Run a job in a process of its own, as a cycle; return the parent of its Python worker, and what is said."""
    environment = {**os.environ, "TWINLOG_SPARK_FOLDER": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr.strip().splitlines()[0]


@pytest.mark.spark
def test_the_life_of_a_warm_spark(tmp_path: Path) -> None:
    """Started, shared, hung, killed, started again, stopped; cycles go on whatever state it is in."""
    started = warm.start(tmp_path)
    process = started.server.process
    try:
        assert (Health.READY, True) == (started.health, started.memory_mib > 100)
        first, line = _work(tmp_path)
        assert f"using the warm Spark at {started.server.address}" == line
        assert (
            first == _work(tmp_path)[0]
        )  # the parent of the Python workers is the same: the session is shared
        with pytest.raises(ConfigError, match="refuses the token"), warm.session(started.server.address):
            pytest.fail("was opened without a token")

        os.kill(process.pid, signal.SIGSTOP)
        assert Health.HUNG is look(started.server).health
        os.kill(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + 60
        while (health := look(started.server).health) is Health.HUNG and time.monotonic() < deadline:
            pass  # each look waits for an answer
        assert Health.READY is health

        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        assert Health.DEAD is look(started.server).health
        assert "local[2]" == choose("auto", tmp_path).master
        assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ  # or no session of its own could be opened now
        again = warm.start(tmp_path)
        assert (Health.READY, True) == (again.health, again.server.token != started.server.token)
    finally:
        stopped = warm.stop(tmp_path)
    assert (True, None, False) == (stopped, warm.read(tmp_path), warm.stop(tmp_path))
