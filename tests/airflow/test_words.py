from typing import Any

import pytest
import typer.main

from twinlog.airflow.words import WAYS, in_airflow
from twinlog.cli.main import app


@pytest.mark.parametrize(
    ("said", "in_words"),
    [
        (
            "`twinlog failback --save --flow 'A->B'` saves it; `twinlog recovery follow --flow 'B->A'` follows",
            "Dag failback (home off, flow A->B) saves it; `twinlog recovery follow --flow 'B->A'` follows",
        ),
        (
            "twinlog failback --tail keep --flow 'A->B' goes on",
            "Dag failback (home on, tail keep, flow A->B) goes on",
        ),
        (
            "`twinlog failover --mode planned --dry-run --flow 'A->B'` shows it",
            "Dag failover (mode planned, dry run, flow A->B) shows it",
        ),
        (
            "`twinlog recovery abort --flow 'A->B' --reason ...` leaves it",
            "Dag failover (mode abort, flow A->B) leaves it",
        ),
        (
            "to accept it: all that it showed: twinlog accept --seen 3f9c --flow 'A->B' --until 8h --reason ...",
            "to accept it: all that it showed: Dag failover (mode accept, seen 3f9c, flow A->B)",
        ),
        ("twinlog accept no-gaps --for orders", "twinlog accept no-gaps --for orders"),
        ("or `twinlog recovery abort --reason ...`", "or Dag failover (mode abort)"),
        ("correct it; `twinlog groups` lists them", "correct it; the flow's page lists them"),
        (
            "`twinlog metadata plan --save FILE`, then apply",
            "`twinlog metadata plan --save FILE`, then apply",
        ),
        ("`twinlog plan --explain` says why", "`twinlog plan --explain` says why"),
        ("another twinlog runs", "another twinlog runs"),
    ],
)
def test_a_command_that_a_dag_does_is_the_dag(said: str, in_words: str) -> None:
    """With the fields of its form; a command, or an option, that no form has stays as it is."""
    assert in_words == in_airflow(said)


def test_every_way_is_a_command() -> None:
    """A command that was renamed would silently stay a command in Airflow's logs."""
    every: Any = typer.main.get_command(app)
    for way in WAYS:
        command = every
        for name in way.partition(" --")[0].split():
            command = command.commands[name]
