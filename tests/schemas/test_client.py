"""Asking a schema registry: what it says is believed only if it follows the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_registry import FakeRegistry

from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import RegistrySettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, TransientError, TwinlogError
from twinlog.lab.kafka.certificates import make_certificates
from twinlog.schemas.client import Registry
from twinlog.schemas.values import Reference, Schema, Version

ONE = RegistrySettings("B", ("http://registry",))


class Saying(FakeRegistry):
    """A registry that always says the same."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__()
        self.said = status, answer

    def answer(self, *_: Any) -> tuple[int, Any]:
        """Say it."""
        return self.said


@pytest.mark.parametrize(
    ("status", "answer", "error", "code"),
    [
        (401, {"error_code": 40101, "message": "who?"}, ClusterRefused, "schema-registry-refused"),
        (422, {"error_code": 42205, "message": "no"}, ClusterRefused, "schema-registry-refused"),
        (503, "later", TransientError, "schema-registry-unreachable"),
        (429, "slow down", TransientError, "schema-registry-unreachable"),
        (302, "", ClusterRefused, "schema-registry-refused"),
        (200, {"not": "a list"}, TerminalError, "schema-registry-answer"),
    ],
)
def test_what_is_no_list_of_subjects_is_an_error(
    status: int, answer: Any, error: type[TwinlogError], code: str
) -> None:
    """A registry that cannot be asked is never one that holds nothing."""
    with pytest.raises(error) as caught:
        Registry(ONE, Saying(status, answer).session()).subjects()
    assert code == caught.value.code


def test_a_registry_that_does_not_answer_is_named_without_its_address() -> None:
    """The address may be a secret."""
    settings = RegistrySettings("B", ("http://127.0.0.1:1", "http://127.0.0.1:2"))
    with Registry(settings) as registry, pytest.raises(ClusterUnreachable) as caught:
        registry.subjects()
    assert "the schema registry of B does not answer: ConnectionError" == caught.value.message


def test_its_own_authority_is_asked_whatever_the_machine_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REQUESTS_CA_BUNDLE, which machines behind a proxy set, takes nothing away; it is for registries without one."""
    own, other = make_certificates(tmp_path / "own"), make_certificates(tmp_path / "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.ca))
    with FakeRegistry().listening(own) as address:
        with Registry(RegistrySettings("B", (address,), ca=str(own.ca))) as registry:
            assert () == registry.subjects()
        with (
            Registry(RegistrySettings("B", (address,))) as registry,
            pytest.raises(ClusterUnreachable) as caught,
        ):
            registry.subjects()
    assert "the schema registry of B does not answer: SSLError" == caught.value.message


def test_the_next_address_is_asked() -> None:
    """As Confluent's clients do."""
    fake = FakeRegistry()
    fake.add("a", '"int"')
    with (
        fake.listening() as url,
        Registry(RegistrySettings("B", ("http://127.0.0.1:1", url))) as registry,
    ):
        assert ("a",) == registry.subjects()


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_every_subject_is_seen_of_a_registry_that_lists_some_at_a_time(most: int) -> None:
    """Apicurio lists 1000 at most, and does not say so."""
    fake = FakeRegistry(most_subjects=most)
    for number in range(5):
        fake.add(f"s{number}", '"int"')
    assert tuple(f"s{it}" for it in range(5)) == Registry(ONE, fake.session()).subjects()


def test_names_with_any_characters_and_all_of_a_schema_come_back() -> None:
    """References, types and data contracts too."""
    fake = FakeRegistry()
    registry = Registry(ONE, fake.session())
    common = Version(1, 7, Schema('"int"'))
    contract = '{"metadata": {"properties": {"owner": "us"}}}'
    schema = Schema('syntax = "proto3";', "PROTOBUF", (Reference("c.proto", "a/b c:%", 1),), contract)
    for name, version in (("a/b c:%", common), ("x?y#z", Version(3, 9, schema))):
        registry.set_mode(name, "IMPORT")
        assert version.id == registry.register(name, version)
        assert version == registry.version(name, version.number)
        assert (version.number,) == registry.versions(name, deleted=False)
    assert (("a/b c:%", "x?y#z"), schema, None) == (
        registry.subjects(),
        registry.schema(9),
        registry.schema(8),
    )


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        (RegistrySettings("B", ONE.urls, user_info=Secret("me:p:w")), "Basic bWU6cDp3"),
        (RegistrySettings("B", ONE.urls, token=Secret("t")), "Bearer t"),
    ],
)
def test_the_login_is_sent(settings: RegistrySettings, header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other one, such as of a file .netrc."""
    fake, seen = FakeRegistry(), []
    session = fake.session()
    send = session.send
    monkeypatch.setattr(
        session, "send", lambda request, **more: seen.append(request) or send(request, **more)
    )
    Registry(settings, session).subjects()
    assert header == seen[0].headers["Authorization"]
