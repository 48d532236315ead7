"""Waiting for answers, without brokers."""

import threading
import time
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
    answers = session.answers(futures, asked)
    assert {"a": 1} == answers.found
    assert {"b"} == set(answers.refused)


def test_require_raises_the_first_refusal(session):
    """Who needs all of them hears why one is missing."""
    answers = session.answers({"b": done(error=KafkaError(KafkaError.INVALID_CONFIG))}, asked)
    with pytest.raises(ClusterRefused, match="A would not look at b"):
        answers.require()


def test_a_dead_cluster_is_noticed_before_the_request_times_out(session):
    """The wait ends soon after the client library has lost all brokers, and says what it heard."""
    started = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"cluster A cannot be reached: .*Connection refused"):
        session.answer(Future(), asked("the cluster"))
    assert time.monotonic() - started < 20


def test_a_bad_login_is_not_called_silence(session):
    """A cluster that answers "who are you" is refusing, which no retry mends."""
    session._heard(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))
    with pytest.raises(ClusterRefused, match="does not accept the login") as caught:
        session.answer(Future(), asked("the cluster"))
    assert "authentication" == caught.value.code


def test_a_failed_handshake_points_to_the_tls_settings(session):
    """TLS trouble has its own line."""
    session._heard(KafkaError(KafkaError._SSL, "certificate verify failed"))
    with pytest.raises(ClusterRefused, match="TLS handshake"):
        session.answer(Future(), asked("the cluster"))


def test_after_silence_the_next_question_finds_the_cluster_anew(session):
    """The client library keeps to a controller that is dead; a refusal of one item is no silence."""
    before = session.admin
    session.answers({"a": done(error=KafkaError(KafkaError.INVALID_CONFIG))}, asked)
    assert before is session.admin
    answers = session.answers({"a": done(error=KafkaError(KafkaError._TIMED_OUT))}, asked)
    assert isinstance(answers.refused["a"], ClusterUnreachable)
    assert before is not session.admin


def test_a_cluster_that_came_back_is_not_judged_by_its_silence(session):
    """A question behind a hopeless one has its own time to be answered: whoever follows asks for weeks."""
    with pytest.raises(ClusterUnreachable):
        session.answer(Future(), asked("the cluster"))
    late: Future = Future()
    threading.Timer(0.1, late.set_result, ["back"]).start()
    assert "back" == session.answer(late, asked("the cluster"))


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._AUTHENTICATION])
def test_a_refusal_at_the_door_is_no_verdict_for_ever(session, code):
    """A certificate or a password may be mended meanwhile: the next question knocks anew."""
    session._heard(KafkaError(code, "not you"))
    with pytest.raises(ClusterRefused):
        session.answer(Future(), asked("the cluster"))
    late: Future = Future()
    threading.Timer(0.1, late.set_result, ["back"]).start()
    assert "back" == session.answer(late, asked("the cluster"))
