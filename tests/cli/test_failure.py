"""What an error becomes: one line, a stable code, an exit code."""

import subprocess

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException

from twinlog.cli.failure import INTERNAL, INTERRUPTED, explain_failure
from twinlog.config.file.providers import Secret
from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    ConfigError,
    FencedError,
    FormatError,
    TransientError,
    UsageError,
)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (UsageError("u"), 2),
        (ConfigError("c"), 2),
        (ClusterUnreachable("a"), 3),
        (ClusterRefused("r"), 3),
        (FencedError("f"), 3),
        (TransientError("t"), 3),
        (FormatError("b"), 1),
        (KeyboardInterrupt(), INTERRUPTED),
        (typer.Abort(), INTERRUPTED),
        (ValueError("v"), INTERNAL),
        (subprocess.TimeoutExpired(["/usr/bin/java", "-version"], 30), 3),
        (TimeoutError(), 3),
        (KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)), 3),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, exit_code: int) -> None:
    """Exit codes follow the kind of error, never its text."""
    assert exit_code == explain_failure(error).exit_code


def test_a_slow_tool_is_named_without_its_arguments() -> None:
    """They may hold a secret; and a slow machine is no mistake in twinlog."""
    slow = subprocess.TimeoutExpired(["/usr/bin/java", "-Dpassword=s3cret"], 30)
    expected = "error: java gave no answer in time; run it again when this machine has less to do"
    assert expected == explain_failure(slow).text


def test_the_line_says_what_is_wrong_and_what_to_do() -> None:
    """Message and hint share one line."""
    error = ConfigError("mm2.properties line 3: clusters is empty", hint="name two aliases", line=3)
    assert explain_failure(error).text == "error: mm2.properties line 3: clusters is empty; name two aliases"


def test_the_mistakes_of_a_file_keep_their_lines() -> None:
    """A file with several mistakes shows each on a line of its own."""
    error = ConfigError("f has 2 mistakes:\n  f:1: a\n  f:2: b", findings=["f:1: a", "f:2: b"])
    failure = explain_failure(error)
    assert failure.lines == ["error: f has 2 mistakes:", "  f:1: a", "  f:2: b"]
    assert failure.data == {"findings": ["f:1: a", "f:2: b"]}


def test_the_document_names_the_identities_and_no_secret() -> None:
    """Under --output json the identities travel as data, and a secret as its mask."""
    error = ClusterRefused(
        "login failed", hint="check it", cluster="A", password=Secret("s3cret"), where=("x", 1)
    )
    assert explain_failure(error).document == {
        "error": {
            "code": "refused",
            "message": "login failed",
            "hint": "check it",
            "data": {"cluster": "A", "password": "[hidden]", "where": ["x", 1]},
            "exit_code": 3,
        }
    }


def test_a_mistake_of_ours_is_not_an_answer() -> None:
    """An unforeseen exception exits with none of the documented codes and asks to be reported."""
    failure = explain_failure(ZeroDivisionError("division by zero"))
    assert (failure.exit_code, failure.text) == (
        70,
        "error: a mistake in twinlog: ZeroDivisionError: division by zero;"
        " run it again with --debug and report the traceback",
    )
