"""The schema registries of a file: which are used, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.explain import explain
from twinlog.config.file.providers import Secret
from twinlog.config.flow.load import load, resolve
from twinlog.config.flow.settings import Configuration
from twinlog.config.security.connection import Registries, RegistrySettings
from twinlog.errors import ConfigError
from twinlog.jsonable import to_json

MINIMAL = """\
clusters=A, B
A.bootstrap.servers=a:9092
B.bootstrap.servers=b:9092
A->B.enabled=true
"""
BOTH = """\
A.schema.registry.url=https://a:8081/
B.schema.registry.url=https://b1:8081, https://b2:8081/apis/ccompat/v7
"""


def loaded(folder: Path, text: str) -> Configuration:
    """Load a file of this text."""
    path = folder / "mm2.properties"
    path.write_text(MINIMAL + text)
    return load(path)


def test_without_the_list_no_subject_is_copied(tmp_path: Path) -> None:
    """Both addresses alone turn nothing on; nor does a file without any."""
    for text in ("", BOTH):
        schemas = loaded(tmp_path, text).flows["A->B"].metadata.schemas
        assert (False, False) == (schemas.copied, schemas.subjects.accepts("orders-value"))


def test_all_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each end has its own; secrets come from providers."""
    monkeypatch.setenv("LOGIN", "me:secret")
    flow = loaded(
        tmp_path,
        BOTH + "A->B.twinlog.schemas.subjects=orders-.*, common\n"
        "A.schema.registry.basic.auth.user.info=${env:LOGIN}\n"
        "B.schema.registry.bearer.auth.token=token\n"
        "B.schema.registry.ssl.ca.location=/ca.pem\n"
        "B.schema.registry.ssl.certificate.location=/me.pem\n"
        "B.schema.registry.ssl.key.location=/me.key\n",
    ).flows["A->B"]
    schemas = flow.metadata.schemas
    assert (True, True, False) == (
        schemas.copied,
        schemas.subjects.accepts("orders-value"),
        schemas.subjects.accepts("orders"),
    )
    b = ("https://b1:8081", "https://b2:8081/apis/ccompat/v7")
    assert (
        Registries(
            RegistrySettings("A", ("https://a:8081",), user_info=Secret("me:secret")),
            RegistrySettings("B", b, None, Secret("token"), "/ca.pem", "/me.pem", "/me.key"),
        )
        == schemas.registries
    )
    assert "secret" not in repr(schemas)


def test_explain_hides_the_login(tmp_path: Path) -> None:
    """Written plainly or not."""
    path = tmp_path / "mm2.properties"
    path.write_text(MINIMAL + BOTH + "A.schema.registry.basic.auth.user.info=me:secret\n")
    text = str(to_json(explain(resolve(path), ["A->B"])))
    assert (True, False) == ("source.cluster.schema.registry.basic.auth.user.info" in text, "secret" in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A.schema.registry.url=registry:8081\n", "mm2.properties:5: A.schema.registry.url: is no address"),
        ("A.schema.registry.url=http://me:pw@registry\n", ":5: A.schema.registry.url: is no address"),
        (
            "A.schema.registry.url=https://a\nA->B.twinlog.schemas.subjects=.*\n",
            ":6: A->B.twinlog.schemas.subjects: B has no schema registry; add B.schema.registry.url",
        ),
        (
            f"{BOTH}A.schema.registry.basic.auth.user.info=me\n",
            ":7: A.schema.registry.basic.auth.user.info: is no NAME:PASSWORD",
        ),
        (
            f"{BOTH}A.schema.registry.basic.auth.user.info=a:b\nA.schema.registry.bearer.auth.token=t\n",
            ":8: A.schema.registry.bearer.auth.token: is a second login",
        ),
        (
            f"{BOTH}B.schema.registry.ssl.key.location=/k\n",
            ":7: B.schema.registry.ssl.key.location: needs both ssl.certificate.location and ssl.key.location",
        ),
        (f"{BOTH}A->B.twinlog.schemas.subjects=[\n", ":7: A->B.twinlog.schemas.subjects: "),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """And no secret."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("schema.registry.url=https://a\n", "write it per cluster: A.schema.registry.url"),
        ("A->B.schema.registry.url=https://a\n", "write it as A.schema.registry.url"),
        ("A.schema.registry.urls=https://a\n", "did you mean schema.registry.url?"),
        (
            "A.schema.registry.url=http://a\nA.schema.registry.bearer.auth.token=t\n",
            "crosses the network in clear; use an https:// address",
        ),
    ],
)
def test_what_is_likely_not_meant_is_warned_of(tmp_path: Path, text: str, warning: str) -> None:
    """With its line."""
    (found,) = loaded(tmp_path, text).warnings
    assert found.endswith(warning)


def test_a_flow_knows_whether_the_reverse_one_copies_subjects_too(tmp_path: Path) -> None:
    """Only if it is enabled."""
    text = BOTH + "twinlog.schemas.subjects=.*\n"
    one, both = loaded(tmp_path, text), loaded(tmp_path, text + "B->A.enabled=true\n")
    assert (False, True) == tuple(it.flows["A->B"].metadata.schemas.both_ways for it in (one, both))
