"""Evidence verifies as it was written, and not otherwise."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import ConfigError, FormatError, TerminalError
from twinlog.formats.ledger.accepted import Waiver, accepted_of
from twinlog.gate.answer import GateResult, weigh
from twinlog.gate.evidence import (
    Seal,
    canonical,
    key_digest,
    own_key,
    plain,
    read_private_key,
    read_public_key,
    verify,
)
from twinlog.jsonable import to_json
from twinlog.judge.check import CheckResult, Mode, Seen, Severity

VERIFIER = Path(__file__).parent / "verify_evidence.py"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A pair of PEM files, as openssl writes them."""
    folder = tmp_path_factory.mktemp("keys")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pem").write_bytes(private)
    (folder / "pub.pem").write_bytes(public)
    return folder / "key.pem", folder / "pub.pem"


@pytest.fixture(scope="module")
def signed(keys):
    """The text of a signed evidence with all that makes JSON hard: floats, other alphabets, quotes."""
    results = [CheckResult("no-gaps", Severity.CRITICAL, False, 'ordér "x"', "gaps = 0", "≠", ("ordér",))]
    waiver = Waiver("no-gaps", "", "Grund: größer", "jö", 2_000_000_000_000, 1)
    checks = weigh(results, [accepted_of(waiver)], {Seen.NOW: 0.123456}, 1_700_000_000_000)
    result = GateResult("A->B", Mode.PLANNED, True, 1_700_000_000_000, False, checks, ())
    seal = Seal("mm2.properties", "ab", read_private_key(keys[0]))
    return seal.document(1_767_225_600_000, gate=to_json(result))


def test_signed_evidence_verifies(signed, keys):
    """And says what it is about."""
    found = verify(signed, read_public_key(keys[1]))
    assert ("A->B", "planned", True, "ab") == (
        found.flow,
        found.mode,
        found.ready,
        found.configuration_sha256,
    )


@pytest.mark.parametrize(
    ("mode", "state", "ready"),
    [
        ("planned", "promoted", True),
        ("source-dead", "open", False),
        ("failback", "following", True),
        ("failback", "promoted", False),
        ("drill", "passed", True),
        ("drill", "waiting", False),
    ],
)
def test_a_run_is_ready_once_it_has_reached_its_end(keys, mode, state, ready):
    """A way home ends with clients at home: what it saves on the way, while the flow stays promoted, is no end."""
    seal = Seal("mm2.properties", "ab", read_private_key(keys[0]))
    text = seal.document(1_767_225_600_000, recovery={"flow": "A->B", "mode": mode, "state": state})
    assert ready is verify(text, read_public_key(keys[1])).ready


class TestOwnKey:
    def test_it_is_made_once_for_this_user_alone(self, tmp_path):
        """Its public half lies beside it, and verifies what it signed."""
        folder = tmp_path / "reports"
        first, second = own_key(folder), own_key(folder)
        assert key_digest(first.public_key()) == key_digest(second.public_key())
        assert 0o600 == (folder / "evidence-key.pem").stat().st_mode & 0o777
        assert ["evidence-key.pem", "evidence-key.pub.pem"] == sorted(it.name for it in folder.iterdir())
        text = Seal("mm2.properties", "ab", first).document(
            0, recovery={"flow": "A->B", "mode": "planned", "state": "promoted"}
        )
        assert verify(text, read_public_key(folder / "evidence-key.pub.pem")).ready

    def test_the_operator_s_wins(self, keys, tmp_path, flow):
        """By option or by setting; then none is made.  A dry run writes nothing, and has none."""
        file = SimpleNamespace(path=tmp_path / "mm2.properties", sha256="ab")
        here = replace(flow, gate=replace(flow.gate, reports=tmp_path))
        named = replace(here, gate=replace(here.gate, sign_with=keys[0]))
        theirs = key_digest(read_public_key(keys[1]))
        assert (theirs, theirs) == (Seal.of(file, here, keys[0]).signed_by, Seal.of(file, named).signed_by)
        assert "" == Seal.of(file).signed_by
        assert [] == list(tmp_path.iterdir())
        assert Seal.of(file, here).signed_by not in {"", theirs}

    def test_a_folder_that_cannot_be_written_to_has_none(self, tmp_path):
        """Where no evidence can be kept, its step says so."""
        (tmp_path / "file").write_text("")
        assert own_key(tmp_path / "file" / "reports") is None


def test_an_independent_script_verifies_it(signed, keys, tmp_path):
    """One that imports nothing of twinlog; changed evidence fails there, too."""
    file = tmp_path / "evidence.json"
    file.write_text(signed, encoding="utf-8")
    command = [sys.executable, "-I", str(VERIFIER), str(file), str(keys[1])]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "A->B planned: ready\n") == (answer.returncode, answer.stdout)
    file.write_text(signed.replace('"ready": true', '"ready": false'), encoding="utf-8")
    assert 0 != subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_verifies_it(signed, keys, tmp_path):
    """The canonical bytes, the raw signature and the public key are all that is needed."""
    import base64

    document = json.loads(signed)
    (tmp_path / "payload").write_bytes(canonical(document["payload"]))
    (tmp_path / "signature").write_bytes(base64.b64decode(document["signature"]["value"]))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(keys[1])]
    files = ["-in", str(tmp_path / "payload"), "-sigfile", str(tmp_path / "signature")]
    answer = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert 0 == answer.returncode, answer.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ready": true', '"ready": false'),
        ('"passed": false', '"passed": true'),
        ("Grund", "grund"),
        ('"age_seconds": 0.123', '"age_seconds": 0.124'),
        ('"sha256": "ab"', '"sha256": "ac"'),
        ('"payload": {', '"payload": {"added": 1, '),
    ],
)
def test_a_changed_byte_is_noticed(signed, keys, old, new):
    """Anywhere in what was signed."""
    changed = signed.replace(old, new, 1)
    assert changed != signed
    with pytest.raises(TerminalError, match="was changed after it was signed"):
        verify(changed, read_public_key(keys[1]))


def test_layout_may_change(signed, keys):
    """Blanks and the order of keys are not signed."""
    document = json.loads(signed)
    shuffled = {key: document[key] for key in reversed(document)}
    assert verify(json.dumps(shuffled), read_public_key(keys[1])) == verify(signed, read_public_key(keys[1]))


def test_another_key_is_said_to_be_another(signed, tmp_path):
    """Not "changed": the evidence may be good."""
    other = Ed25519PrivateKey.generate().public_key()
    with pytest.raises(TerminalError, match="was signed by another key"):
        verify(signed, other)


def test_unsigned_evidence_proves_nothing(signed, keys):
    """Whoever takes the signature off gets no further."""
    document = json.loads(signed) | {"signature": None}
    with pytest.raises(TerminalError, match="is not signed"):
        verify(json.dumps(document), read_public_key(keys[1]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON: it is nested too deeply"),
        ("[]", "no evidence of twinlog"),
        ('{"format": "other"}', "no evidence of twinlog"),
        ('{"format": "twinlog-evidence", "version": 2}', "only version 1 is known"),
        ('{"format": "twinlog-evidence", "version": 1}', "no payload"),
        ('{"a": 1, "a": 2}', "stands twice"),
        (
            '{"format": "twinlog-evidence", "version": 1, "payload": {}, "signature": {"algorithm": "none"}}',
            "is not by Ed25519",
        ),
    ],
)
def test_what_is_no_evidence_is_refused(keys, text, words):
    """Each with what is wrong."""
    with pytest.raises(FormatError, match=words):
        verify(text, read_public_key(keys[1]))


def test_keys_that_are_none_are_refused(keys, tmp_path):
    """With the command that makes one."""
    private, public = keys
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
    )
    for read, path, words in (
        (read_private_key, garbage, "openssl genpkey"),
        (read_private_key, public, "is no private Ed25519 key"),
        (read_private_key, locked, "is encrypted"),
        (read_private_key, tmp_path / "missing.pem", "cannot be read"),
        (read_public_key, private, "is no public Ed25519 key"),
        (read_public_key, garbage, "openssl pkey"),
    ):
        with pytest.raises(ConfigError, match=words):
            read(path)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9))
def test_numbers_are_written_in_one_way(number):
    """Whole ones without a point, others with at most three decimals, never with an exponent."""
    text = canonical({"n": plain(number)}).decode()
    assert "e" not in text.removeprefix('{"n":')
    assert not text.endswith(".0}")
    assert json.loads(text)["n"] == round(number, 3)
