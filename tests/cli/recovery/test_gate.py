"""`twinlog gate`, `accept` and `evidence`: what they answer, and what they refuse."""

import json
import re
from typing import Any

import pytest
import typer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from twinlog.cli.main import app, main
from twinlog.clock import now_ms
from twinlog.config.flow.load import load
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.accepted import Waiver
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.state.ledger import read_ledger, write_ledger

ADD = ("accept", "no-gaps", "--up-to", "1", "--reason", "drill")


def _run(world, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict, str]:
    code = main([*words, "--config", str(world.file), "--output", "json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


@pytest.fixture
def reported(world, tmp_path, capsys: pytest.CaptureFixture[str]):
    """A flow that has run, with its reports in a folder of the test."""
    with world.file.open("a") as file:
        file.write(f"twinlog.reports.folder = {tmp_path / 'reports'}\ntwinlog.gate.fence.seconds = 1\n")
    world.source.add_topic("orders")
    assert 0 == main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    return world


def test_the_answer_is_a_document_and_an_exit_code(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """Ready is 0; page and evidence are where it says."""
    code, answer, err = _run(reported, capsys, "gate", "--mode", "planned")
    assert (0, True, "A->B", "planned") == (code, answer["ready"], answer["flow"], answer["mode"])
    names = {"name", "severity", "passed", "observed", "expected", "message", "age_seconds"}
    assert [] == [check for check in answer["checks"] if not names <= set(check)]
    assert {"no-gaps", "source-answers", "source-fenced"} <= {check["name"] for check in answer["checks"]}
    for path in (answer["page"], answer["evidence"]):
        assert path in err
    code, answer, _ = _run(reported, capsys, "gate", "--mode", "source-dead")
    assert (1, False) == (code, answer["ready"])
    assert 1 == main(["gate", "--mode", "source-dead", "--config", str(reported.file)])
    out = capsys.readouterr().out
    assert "A->B, failover (source-dead): NOT READY" in out
    assert "source-silent" in out


def test_what_holds_is_a_number_unless_all_is_asked_for(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads it at night reads what stands in the way."""
    asked = ["gate", "--mode", "source-dead", "--config", str(reported.file)]
    shown = []
    for more in ([], ["--all"]):
        main([*asked, *more])
        shown.append(capsys.readouterr().out)
    brief, whole = shown
    assert [(False, True), (True, True)] == [
        (
            re.search(r"^ +ok +", out, re.M) is not None,
            re.search(r"NOT READY.*; \d+ checks hold", out) is not None,
        )
        for out in (brief, whole)
    ]


def test_a_lost_target_is_exit_3(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nobody to fail over to."""

    def lost(*_: object) -> None:
        raise ClusterUnreachable("cluster B is away", cluster="B")

    reported.target.cluster_id = lost
    code, answer, _ = _run(reported, capsys, "gate")
    assert (3, "unreachable") == (code, answer["error"]["code"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gate", "--mode", "source-dead", "--canary"), "ask something of the source"),
        (("gate", "--sign-with", "no-such.pem"), "no-such.pem cannot be read"),
        (("gate", "--flow", "A->C"), "A->C"),
        ((*ADD, "--until", "2020-01-01T00:00:00Z"), "has passed"),
        ((*ADD, "--until", "soon"), "soon"),
        ((*ADD, "--until", "9999999d"), "more than ten years away"),
        ((*ADD, "--until", "9999-12-31T23:59:59-05:00"), "more than ten years away"),
        (("gate", "--evidence", "/nowhere/e.json"), "/nowhere/e.json cannot be written"),
        (("metadata", "plan", "--save", "/nowhere/p.json"), "/nowhere/p.json cannot be written"),
        (("accept", "gaps", "--reason", "x"), "'gaps' is no check"),
        (("accept", "no-gaps", "--reason", " "), "takes a reason"),
        (("accept", "no-gaps", "--seen", "ab", "--reason", "x"), "say one check, or --seen"),
        (("failover", "--mode", "planned", "--accept", "known"), "--accept REASON and --seen ID go together"),
        (("failover", "--mode", "planned", "--seen", "ab", "--accept", "x", "--yes"), "without --yes"),
        (("accept", "--withdraw"), "say one check, or --seen"),
        ((*ADD, "--partitions", "1,2"), "--partitions: '1,2' are none"),
        ((*ADD, "--not-known", "-1"), "may not be below 0"),
        ((*ADD, "--offset", "5"), "about the lost range of one partition"),
    ],
)
def test_wrong_usage_is_exit_2(world, capsys: pytest.CaptureFixture[str], words, said: str) -> None:
    """One line that says what is wrong."""
    code = main([*words, "--config", str(world.file)])
    err = capsys.readouterr().err
    assert (2, True) == (code, said in err), err


@pytest.mark.parametrize(
    "words",
    [
        ("gate",),
        ("accept",),
        ("metadata", "plan"),
        ("metadata", "apply"),
        ("translate", "orders:0:1"),
        ("topics", "rebuild", "--topic", "orders"),
    ],
    ids=" ".join,
)
def test_several_flows_need_a_name(world, capsys: pytest.CaptureFixture[str], words) -> None:
    """What is about one flow says so in one way; --help names the only flow as the default."""
    with world.file.open("a") as file:
        file.write("B->A.enabled = true\n")
    assert 2 == main([*words, "--config", str(world.file)])
    said = f"this is about one flow, and {world.file} has A->B, B->A; add --flow 'A->B'"
    assert said in capsys.readouterr().err
    assert 2 == main([*words, "--flow", "A->B", "--flow", "B->A", "--config", str(world.file)])
    assert "--flow names A->B, B->A; ask about each by itself" in capsys.readouterr().err
    command: Any = typer.main.get_command(app)
    for word in words[: 2 if words[0] in {"metadata", "topics"} else 1]:
        command = command.commands[word]
    (flow,) = [it.help for it in command.params if it.name == "flow"]
    assert "The flow. Default: the only one enabled." == flow


@pytest.mark.parametrize(
    ("words", "option"),
    [(("gate",), "--evidence"), (("metadata", "plan"), "--save")],
    ids=["gate", "metadata"],
)
def test_the_answer_is_shown_whatever_becomes_of_the_file(
    reported, capsys: pytest.CaptureFixture[str], tmp_path, words, option: str
) -> None:
    """A full disk costs the file, not the answer; the exit code says so."""
    file = tmp_path / "kept.json"
    code, answer, _ = _run(reported, capsys, *words, option, str(file))
    assert (0, True) == (code, file.exists())
    file.unlink()
    file.symlink_to("/dev/full")
    code, answer, err = _run(reported, capsys, *words, option, str(file))
    assert (2, "A->B", True) == (code, answer["flow"], f"{file} could not be written" in err)


def test_what_is_accepted_comes_and_goes(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in the ledger, with the number, and with how the person is known; the second replaces the first."""
    flow = load(reported.file).flows["A->B"]
    for reason in ("first", "second"):
        words = ("accept", "no-gaps", "--for", "orders", "--up-to", "3", "--until", "2h", "--reason", reason)
        assert 0 == _run(reported, capsys, *words)[0]
    (given,) = read_ledger(flow, reported.target).accepted
    assert ("no-gaps", "orders", "second", 3, 0) == (
        given.check,
        given.subject,
        given.reason,
        given.up_to,
        given.not_known,
    )
    assert "not authenticated" in given.known_by
    code, listed, _ = _run(reported, capsys, "accept")
    assert (0, ["second"]) == (code, [it["reason"] for it in listed["accepted"]])
    assert 0 == _run(reported, capsys, "accept", "no-gaps", "--for", "orders", "--withdraw")[0]
    assert () == read_ledger(flow, reported.target).accepted
    code, answer, _ = _run(reported, capsys, "accept", "no-gaps", "--withdraw")
    assert (1, "not-accepted") == (code, answer["error"]["code"])


def test_what_an_older_release_wrote_goes_as_it_changes(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """A waiver knew no limit: beside a new number it would go on covering anything."""
    flow = load(reported.file).flows["A->B"]
    write_ledger(flow, reported.target, [Waiver("no-gaps", "", "old", "jo", now_ms() + 10**7, now_ms())])
    code, listed, _ = _run(reported, capsys, "accept")
    assert (0, [("jo", None)]) == (code, [(it["by"], it["up_to"]) for it in listed["accepted"]])
    assert 0 == _run(reported, capsys, *ADD)[0]
    assert [1] == [it.up_to for it in read_ledger(flow, reported.target).accepted]
    assert 0 == _run(reported, capsys, "accept", "no-gaps", "--withdraw")[0]
    assert () == read_ledger(flow, reported.target).accepted


def test_all_that_the_gate_showed_is_accepted_by_its_name(
    reported, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its number; what is larger since forbids the failover again."""
    flow = load(reported.file).flows["A->B"]

    def lose(count: int) -> None:
        gap = Gap("orders", 0, count, count, GapCause.RETENTION, now_ms(), 1, "life", copied_past=True)
        write_ledger(flow, reported.target, [gap])

    lose(5)
    code, answer, err = _run(reported, capsys, "gate")
    assert (1, ["no-gaps"]) == (code, [it["check"] for it in answer["accept"]])
    assert "twinlog accept no-gaps --flow 'A->B' --for orders --up-to 1 --until 8h --reason ..." in err
    assert answer["seen"]
    assert 0 == _run(reported, capsys, "accept", "--seen", answer["seen"], "--reason", "unread")[0]
    code, answer, _ = _run(reported, capsys, "gate")
    assert (0, "", []) == (code, answer["seen"], answer["accept"])
    lose(6)
    assert 1 == _run(reported, capsys, "gate")[0]
    code, answer, _ = _run(reported, capsys, "accept", "--seen", "nosuch", "--reason", "unread")
    assert (1, "not-seen") == (code, answer["error"]["code"])


def test_a_dry_run_prints_what_accepts_each_blocker(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """Ready to paste; the failover that accepts all of it takes the name of the dry run."""
    flow = load(reported.file).flows["A->B"]
    gap = Gap("orders", 0, 5, 9, GapCause.RETENTION, now_ms(), 5, "life", copied_past=True)
    write_ledger(flow, reported.target, [gap])
    code, report, err = _run(reported, capsys, "failover", "--mode", "source-dead", "--dry-run")
    assert (0, {"no-gaps", "source-silent"}) == (code, {it["check"] for it in report["accept"]})
    assert (
        "to accept it: twinlog accept no-gaps --flow 'A->B' --for orders --up-to 1 --until 8h --reason ..."
        in err
    )
    assert f"is accepted by --accept REASON --seen {report['seen']}" in err
    taken = ("failover", "--mode", "source-dead", "--accept", "A is cut off", "--seen", report["seen"])
    _run(reported, capsys, *taken)  # a fake target has no fence
    assert {"no-gaps", "source-silent"} == {it.check for it in read_ledger(flow, reported.target).accepted}


def test_without_a_number_it_is_that_of_the_last_look(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """If nobody has looked, there is none."""
    flow = load(reported.file).flows["A->B"]
    words = ("accept", "no-gaps", "--for", "orders", "--reason", "unread")
    code, answer, _ = _run(reported, capsys, *words)
    assert (2, True) == (code, "no look has shown by how much" in answer["error"]["message"])
    gap = Gap("orders", 0, 5, 9, GapCause.RETENTION, now_ms(), 5, "life", copied_past=True)
    write_ledger(flow, reported.target, [gap])
    assert 1 == _run(reported, capsys, "gate")[0]
    assert 0 == _run(reported, capsys, *words)[0]
    assert [1] == [it.up_to for it in read_ledger(flow, reported.target).accepted]


def test_who_is_no_approver_accepts_nothing(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is written."""
    with reported.file.open("a") as file:
        file.write("twinlog.approvers = ada, jo\n")
    code, answer, _ = _run(reported, capsys, *ADD)
    assert (1, "no-approver") == (code, answer["error"]["code"])
    assert () == read_ledger(load(reported.file).flows["A->B"], reported.target).accepted


def test_a_lost_range_is_accepted_and_taken_back(reported, capsys: pytest.CaptureFixture[str]) -> None:
    """By name and reason, one by one; the answer stands in the ledger, and in what is listed."""
    flow = load(reported.file).flows["A->B"]
    gaps = [
        Gap("orders", 0, first, first + 4, GapCause.RETENTION, now_ms(), 5, "life", copied_past=True)
        for first in (5, 50)
    ]
    write_ledger(flow, reported.target, gaps)
    lost = ("accept", "no-gaps", "--for", "orders", "--partitions", "0", "--offset", "5")
    code, shown, _ = _run(reported, capsys, *lost, "--reason", "nobody reads it")
    assert (0, [(5, 9, None)]) == (
        code,
        [(it["first_offset"], it["up_to"], it["until_ms"]) for it in shown["accepted"]],
    )
    code, listed, _ = _run(reported, capsys, "topics", "gaps")
    assert (0, ["acknowledged", "open"]) == (code, [it["state"] for it in listed["gaps"]])
    assert ["nobody reads it", ""] == [it["acknowledged_reason"] for it in listed["gaps"]]
    assert 0 == _run(reported, capsys, *lost, "--withdraw")[0]
    assert () == read_ledger(flow, reported.target).accepted
    code, refused, _ = _run(reported, capsys, *lost, "--withdraw")
    assert (1, "not-accepted") == (code, refused["error"]["code"])
    code, shown, _ = _run(reported, capsys, *lost, "--reason", "nobody reads it", "--until", "8h")
    (until_ms,) = [it["until_ms"] for it in shown["accepted"]]
    assert (0, 8) == (code, round((until_ms - now_ms()) / 3_600_000)), "an end that was said is an end"
    code, refused, _ = _run(reported, capsys, *lost[:-1], "6", "--reason", "nobody reads it")
    assert (1, "no-gap") == (code, refused["error"]["code"])


def test_for_a_flow_that_never_ran_nothing_is_accepted(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor gets a ledger from one."""
    code, answer, err = _run(world, capsys, *ADD, "--until", "1h")
    assert (1, "no-ledger") == (code, answer["error"]["code"])
    assert "twinlog run --once --flow 'A->B'" in err
    assert {} == dict(world.target.topics)


def test_evidence_that_cannot_be_read_is_exit_2(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file, or the key."""
    assert 2 == main(["evidence", "verify", str(tmp_path / "e.json"), "--key", str(tmp_path / "pub.pem")])
    assert "pub.pem cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["clusters = A, B", "{}", "[1]", '{"version": 2}'])
def test_what_is_no_evidence_is_exit_2(tmp_path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Exit 1 would say that somebody has changed it."""
    file, key = tmp_path / "e.json", tmp_path / "pub.pem"
    file.write_text(text)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = Ed25519PrivateKey.generate().public_key()
    key.write_bytes(public.public_bytes(serialization.Encoding.PEM, form))
    assert 2 == main(["evidence", "verify", str(file), "--key", str(key)])
    assert "evidence" in capsys.readouterr().err
