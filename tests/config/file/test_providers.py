"""`${provider:path:key}`: where secrets come from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from twinlog.config.file.origin import Origin, Properties, Property
from twinlog.config.file.providers import Expanded, LookupFailedError, providers_of, stand_in
from twinlog.errors import ConfigError, TransientError

KAFKA = "org.apache.kafka.common.config.provider."


def declared(**properties: str) -> Properties:
    return {
        f"config.providers{key}": Property(value, Origin("as written", "f", 1, key))
        for key, value in properties.items()
    }


def expand(text: str, raw: Properties | None = None, **environ: str) -> Expanded:
    providers, errors = providers_of(raw or {}, environ)
    assert () == errors
    return providers.expand(Property(text, Origin("as written", "f", 3, "k")))


def failure(text: str, raw: Properties | None = None, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        expand(text, raw, **environ)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", Expanded("plain", indirect=False)),
        (" plain ", Expanded("plain", indirect=False)),
        ("${env:X}", Expanded("x", indirect=True)),
        ("a ${env:X} b ${env:Y}", Expanded("a x b y", indirect=True)),
        ("$env:X {X}", Expanded("$env:X {X}", indirect=False)),
        ("${env:Z}", Expanded("${env:X}", indirect=True)),
    ],
)
def test_environment(text: str, expected: Expanded) -> None:
    """References are replaced wherever they stand, once: a value is not expanded again."""
    assert expected == expand(text, X="x", Y="y", Z="${env:X}")


def test_file_and_directory(tmp_path: Path) -> None:
    """A key of a properties file, and a file of a folder, whose trailing line end is trimmed."""
    (tmp_path / "s.properties").write_text("a.b = se\\:crét\n", encoding="utf-8")
    (tmp_path / "password").write_text("from a mounted secret\n")
    assert "se:crét" == expand(f"${{file:{tmp_path}/s.properties:a.b}}").text
    assert "from a mounted secret" == expand(f"${{dir:{tmp_path}:password}}").text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("${env:X}", "f:3: k: ${env:X}: the environment variable X is not set"),
        ("${env:a:X}", "has no path"),
        ("${file:/none:x}", "f:3: k: ${file:/none:x}: /none cannot be read"),
        ("${file:x}", "a path is missing"),
        ("${dir:/none:x}", "/none/x cannot be read"),
        ("${dir:/etc:../passwd}", "the key is the name of a file in the folder"),
        ("${vault:a:b}", "names no known provider"),
        ("${airflow:conn}", "inside Airflow only"),
    ],
)
def test_what_leads_nowhere_is_an_error(text: str, part: str) -> None:
    """Kafka would go on with the text as the password; here file, line and reference are named."""
    assert part in failure(text)


def test_a_missing_key_of_a_file(tmp_path: Path) -> None:
    """The file and the key are named, none of its values is."""
    (tmp_path / "s").write_text("other=hunter2")
    message = failure(f"${{file:{tmp_path}/s:wanted}}")
    assert ("has no key wanted" in message, "hunter2" in message) == (True, False)


def test_declared_names(tmp_path: Path) -> None:
    """Kafka's three classes work under any name, also one of ours."""
    (tmp_path / "s").write_text("k=v")
    raw = declared(**{
        "": "secrets, e , folder",
        ".secrets.class": KAFKA + "FileConfigProvider",
        ".e.class": KAFKA + "EnvVarConfigProvider",
        ".folder.class": KAFKA + "DirectoryConfigProvider",
    })
    text = f"${{secrets:{tmp_path}/s:k}} ${{e:X}} ${{folder:{tmp_path}:s}}"
    assert Expanded("v x k=v", indirect=True) == expand(text, raw, X="x")


def test_allowed_paths_and_patterns(tmp_path: Path) -> None:
    """KIP-993's allowed.paths and the environment's allowlist.pattern are held to."""
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "s").write_text("k=v")
    (tmp_path / "s").write_text("k=v")
    raw = declared(**{
        "": "file,env",
        ".file.class": KAFKA + "FileConfigProvider",
        ".file.param.allowed.paths": str(inside),
        ".env.class": KAFKA + "EnvVarConfigProvider",
        ".env.param.allowlist.pattern": "MM2_.*",
    })
    assert "v" == expand(f"${{file:{inside}/s:k}}", raw).text
    assert "outside allowed.paths" in failure(f"${{file:{tmp_path}/s:k}}", raw)
    assert "outside allowed.paths" in failure(f"${{file:{inside}/../s:k}}", raw)
    assert "x" == expand("${env:MM2_X}", raw, MM2_X="x").text
    assert "does not allow" in failure("${env:HOME}", raw, HOME="x")


def test_airflow_inside_airflow() -> None:
    """A resolver answers for a connection's password, or for the field that is named."""
    answers = {("kafka_b", "password"): "p", ("kafka_b", "login"): "u"}

    def resolver(connection: str, field: str) -> str:
        try:
            return answers[connection, field]
        except KeyError:
            raise LookupFailedError(f"no connection {connection}") from None

    providers, _ = providers_of({}, {}, resolver)
    value = Property("${airflow:kafka_b:login} ${airflow:kafka_b}", Origin("as written", "f", 3, "k"))
    assert Expanded("u p", indirect=True) == providers.expand(value)
    with pytest.raises(ConfigError) as caught:
        providers.expand(Property("${airflow:other}", value.origin))
    assert "f:3: k: ${airflow:other}: no connection other" == str(caught.value)


VAULT = """
asked = []


def read(path, key, *, mount="kv"):
    asked.append(key)
    match key:
        case "password":
            return f"{mount}/{path}"
        case "number":
            return 7
        case "down":
            raise OSError("refused hunter2")
    raise KeyError("hunter2")
"""


class TestPythonFunction:
    """A provider that is a function of the user's."""

    @pytest.fixture
    def vault(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Properties:
        (tmp_path / "a_vault.py").write_text(VAULT)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "a_vault", raising=False)
        return declared(**{
            "": "vault",
            ".vault.class": "python:a_vault.read",
            ".vault.param.mount": "secret",
        })

    def test_it_gets_path_key_and_parameters(self, vault: Properties) -> None:
        """As written; without a path it is empty."""
        assert Expanded("secret/kafka/a", indirect=True) == expand("${vault:kafka/a:password}", vault)
        assert "secret/" == expand("${vault:password}", vault).text

    def test_it_is_asked_once_for_each_value(self, vault: Properties) -> None:
        """A password stands in the settings of several clients."""
        expand("${vault:a:password} ${vault:a:password}", vault)
        assert ["password"] == sys.modules["a_vault"].asked

    def test_a_dag_file_asks_it_nothing(self, vault: Properties) -> None:
        """It is parsed every few seconds."""
        providers, _ = providers_of(vault, {}, stand_in)
        found = providers.expand(Property("${vault:a:password}", Origin("as written", "f", 3, "k")))
        assert not found.known
        assert [] == sys.modules["a_vault"].asked

    @pytest.mark.parametrize(
        ("key", "part"), [("other", "a_vault.read knows no such value"), ("number", "gave int, and no text")]
    )
    def test_what_it_does_not_have_is_an_error(self, vault: Properties, key: str, part: str) -> None:
        """The reference is named; the text of the function's own error is not shown."""
        message = failure(f"${{vault:a:{key}}}", vault)
        assert part in message
        assert f"f:3: k: ${{vault:a:{key}}}" in message
        assert "hunter2" not in message

    def test_a_vault_that_does_not_answer_is_asked_again_later(self, vault: Properties) -> None:
        """By whoever tries again after errors that may go away."""
        with pytest.raises(TransientError) as caught:
            expand("${vault:a:down}", vault)
        assert "the config provider a_vault.read failed: OSError" in str(caught.value)
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize("name", ["no_such_module.read", "a_vault.write", "read", ""])
    def test_a_function_that_is_not_there_is_an_error(self, vault: Properties, name: str) -> None:
        """At its declaration."""
        wrong = {**vault, **declared(**{".vault.class": f"python:{name}"})}
        _, (error,) = providers_of(wrong, {})
        assert f"python:{name} cannot be imported" in error.message
        assert "config.providers.vault.class" == error.data["key"]
