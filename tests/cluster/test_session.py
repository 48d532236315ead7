"""Waiting for answers, without brokers."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from twinlog.cluster import session as session_module
from twinlog.cluster.session import Asked, Session
from twinlog.errors import ClusterRefused, ClusterUnreachable


@pytest.fixture
def session(monkeypatch) -> Session:
    """A session whose cluster does not exist, and that gives up soon."""
    monkeypatch.setattr(session_module, "GIVE_UP_SECONDS", 0.2)
    return Session("A", {"bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture
def silent(monkeypatch) -> Iterator[Session]:
    """A session whose cluster takes connections and never answers, and that gives up soon."""
    monkeypatch.setattr(session_module, "GIVE_UP_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Session("A", {"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})


def asked(item: str) -> Asked:
    return Asked("A", "look at", item, "DESCRIBE")


def done(value=None, error: KafkaError | None = None) -> Future:
    future: Future = Future()
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(KafkaException(error))
    return future


def test_one_refusal_does_not_lose_the_other_answers(session):
    """Each item is either found or refused."""
    futures = {"a": done(1), "b": done(error=KafkaError(KafkaError.INVALID_CONFIG))}
    answers = session.answers(lambda _: futures, asked)
    assert {"a": 1} == answers.found
    assert {"b"} == set(answers.refused)


def test_require_raises_the_first_refusal(session):
    """Who needs all of them hears why one is missing."""
    answers = session.answers(lambda _: {"b": done(error=KafkaError(KafkaError.INVALID_CONFIG))}, asked)
    with pytest.raises(ClusterRefused, match="A would not look at b"):
        answers.require()


def test_a_dead_cluster_is_noticed_before_the_request_times_out(session):
    """The wait ends soon after the client library has lost all brokers, and says what it heard."""
    started = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"cluster A cannot be reached: .*Connection refused"):
        session.answer(lambda _: Future(), asked("the cluster"))
    assert time.monotonic() - started < 20


def test_a_bad_login_is_not_called_silence(session):
    """A cluster that answers "who are you" is refusing, which no retry mends."""
    session._heard(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))
    with pytest.raises(ClusterRefused, match="does not accept the login") as caught:
        session.answer(lambda _: Future(), asked("the cluster"))
    assert "authentication" == caught.value.code


def test_a_failed_handshake_points_to_the_tls_settings(session):
    """TLS trouble has its own line."""
    session._heard(KafkaError(KafkaError._SSL, "certificate verify failed"))
    with pytest.raises(ClusterRefused, match="TLS handshake"):
        session.answer(lambda _: Future(), asked("the cluster"))


def test_after_silence_the_next_question_finds_the_cluster_anew(session):
    """The client library keeps to a controller that is dead; a refusal of one item is no silence."""
    before = session.admin
    session.answers(lambda _: {"a": done(error=KafkaError(KafkaError.INVALID_CONFIG))}, asked)
    assert before is session.admin
    answers = session.answers(lambda _: {"a": done(error=KafkaError(KafkaError._TIMED_OUT))}, asked)
    assert isinstance(answers.refused["a"], ClusterUnreachable)
    assert before is not session.admin


def test_a_cluster_that_came_back_is_not_judged_by_its_silence(session):
    """A question behind a hopeless one has its own time to be answered: whoever follows asks for weeks."""
    with pytest.raises(ClusterUnreachable):
        session.answer(lambda _: Future(), asked("the cluster"))
    late: Future = Future()
    threading.Timer(0.1, late.set_result, ["back"]).start()
    assert "back" == session.answer(lambda _: late, asked("the cluster"))


def test_a_cluster_that_was_just_found_gone_is_waited_for_less(session, monkeypatch):
    """By the next question alone: one that comes back slowly gets its full time again, and so does every other one."""
    monkeypatch.setattr(session_module, "GIVE_UP_SECONDS", 30.0)
    monkeypatch.setattr(session_module, "ONCE_MORE_SECONDS", 0.0)
    session._gave_up = True
    with pytest.raises(ClusterUnreachable):
        session.answer(lambda _: Future(), asked("the cluster"))
    assert not session._gave_up
    session._gave_up = True
    session.answers(lambda _: {"a": done(1)}, asked)
    assert not session._gave_up


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._AUTHENTICATION])
def test_a_refusal_at_the_door_is_no_verdict_for_ever(session, code):
    """A certificate or a password may be mended meanwhile: the next question knocks anew."""
    session._heard(KafkaError(code, "not you"))
    with pytest.raises(ClusterRefused):
        session.answer(lambda _: Future(), asked("the cluster"))
    late: Future = Future()
    threading.Timer(0.1, late.set_result, ["back"]).start()
    assert "back" == session.answer(lambda _: late, asked("the cluster"))


def lose_a_broker(session: Session) -> None:
    session._heard(KafkaError(KafkaError._TRANSPORT, "connection refused"))


def test_a_question_that_a_lost_broker_keeps_is_asked_again_by_a_new_client(silent):
    """The client library waits for the controller it knows."""
    clients = []

    def send(admin):
        clients.append(admin)
        if len(clients) == 1:
            lose_a_broker(silent)
            return {"a": Future()}
        return {"a": done(1)}

    assert {"a": 1} == silent.answers(send, asked).found
    assert 2 == len(set(clients))


def test_a_question_that_a_frozen_broker_keeps_is_asked_again(silent, monkeypatch):
    """Its connection stays open, and nobody says that it is lost; a slow answer has twice the time."""
    monkeypatch.setattr(session_module, "SILENT_SECONDS", 0.2)
    clients, late = [], Future()

    def send(admin):
        clients.append(admin)
        if len(clients) == 1:
            return {"a": Future()}
        threading.Timer(0.3, late.set_result, [1]).start()
        return {"a": late}

    assert {"a": 1} == silent.answers(send, asked).found
    assert 2 == len(set(clients))


def test_what_changes_something_is_sent_once(silent):
    """A broker may still hold the first request."""
    sent, late = [], Future()

    def send(admin):
        sent.append(admin)
        lose_a_broker(silent)
        threading.Timer(0.5, late.set_result, ["done"]).start()
        return {"a": late}

    assert {"a": "done"} == silent.answers(send, asked, changes=True).found
    assert 1 == len(sent)


@pytest.mark.parametrize(
    ("said", "tries"),
    [
        ("Timed out waiting for controller", 2),
        ("Failed while waiting for controller: Local: Timed out", 2),
        ("Timed out waiting for response from broker", 1),
    ],
)
def test_what_was_never_sent_is_asked_again(silent, said, tries):
    """The client library says how far it came."""
    sent = []

    def send(admin):
        sent.append(admin)
        return {"a": done(1) if len(sent) > 1 else done(error=KafkaError(KafkaError._TIMED_OUT, said))}

    silent.answers(send, asked, changes=True)
    assert tries == len(sent)
