"""The units for systemd and the chart for Kubernetes say what those parsers and twinlog's command line take."""

from __future__ import annotations

import copy
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

import twinlog
from twinlog.cli.main import app
from twinlog.errors import ExitCode
from twinlog.shipped import folder

UNITS = sorted((folder("config") / "systemd").iterdir())
RUNS = [it for it in UNITS if it.suffix == ".service"]
CHART = folder("config") / "helm"
ROOT = Path(__file__).resolve().parents[2]
FILE = 'clusters = A, B\nA.sasl.jaas.config = x user="a{{ b }}" \\\n  password="%";\n'
"""A configuration with what YAML and templates could take for theirs."""

Helm = Callable[..., tuple[int, str]]
Resources = dict[tuple[str, str], dict[str, Any]]


def unknown(words: Sequence[str]) -> list[str]:
    """Return the words of a command line after `twinlog` that its parser does not know."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        return rest
    known = {name for it in command.params for name in it.opts}
    return [word for word in rest if word.startswith("-") and word not in known]


def unit(path: Path) -> ConfigParser:
    """Return a unit's sections, with the keys as they are written."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def test_the_search_for_unknown_words_finds_one() -> None:
    """Otherwise the tests below could not fail."""
    assert (["--sometimes"], ["walk"]) == (unknown(["run", "--sometimes"]), unknown(["walk"]))


@pytest.mark.parametrize("path", RUNS, ids=lambda it: it.name)
def test_a_service_starts_a_command_that_there_is(path: Path) -> None:
    """With options that it has, as a user of its own."""
    service = unit(path)["Service"]
    for key in ("ExecStart", "ExecStop"):
        if key in service:
            program, *words = shlex.split(service[key])
            assert ("twinlog", []) == (Path(program).name, unknown(words))
    assert "twinlog" == service["User"]


@pytest.mark.parametrize("path", UNITS, ids=lambda it: it.name)
def test_systemd_takes_a_unit(path: Path, tmp_path: Path) -> None:
    """Every section and key; programs and users of this machine stand in for those that are not there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    for other in UNITS:
        text = re.sub(r"^(Exec\w+)=\S+", r"\1=/bin/true", other.read_text(), flags=re.MULTILINE)
        (tmp_path / other.name).write_text(re.sub(r"^User=.*", "User=root", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / path.name)],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [] == [line for line in done.stderr.splitlines() if str(tmp_path) in line]


@pytest.mark.parametrize("path", RUNS, ids=lambda it: it.name)
def test_a_service_can_do_little_else(path: Path) -> None:
    """By systemd's own measure: 10 is everything, such as another user's files, devices and the kernel's settings."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout


def test_a_mistake_in_the_file_is_not_tried_again() -> None:
    """The code with which twinlog refuses a configuration ends the service."""
    service = unit(folder("config") / "systemd" / "twinlog.service")["Service"]
    assert str(ExitCode.USAGE.value) == service["RestartPreventExitStatus"]


@pytest.fixture(scope="module")
def helm() -> Helm:
    """Run helm on the chart; return its exit code and what it says."""
    found = subprocess.run([ROOT / ".ci/helm"], capture_output=True, text=True, check=False, timeout=1500)
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])

    def run(*words: str) -> tuple[int, str]:
        command, *more = words
        place = [command, "dr", str(CHART)] if command == "template" else [command, str(CHART)]
        done = subprocess.run(
            [found.stdout.strip(), *place, "--kube-version", "1.37", *more],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout if not done.returncode else done.stderr

    return run


@pytest.fixture(scope="module")
def resources(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Resources:
    """Return what the chart makes of a file, and of every value that somebody may give, by kind and name."""
    values = tmp_path_factory.mktemp("helm") / "values.yaml"
    given = {
        "configuration": FILE,
        "imagePullSecrets": [{"name": "pull"}],
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}],
        "envFrom": [{"secretRef": {"name": "a"}}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dr", "operator": "Exists"}],
    }
    values.write_text(yaml.safe_dump(given))
    code, text = helm("template", "--values", str(values))
    assert 0 == code, text
    return {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(text) if it}


@pytest.mark.integration
@pytest.mark.timeout(1600)
class TestHelm:
    """The chart, by helm itself."""

    def test_helm_finds_no_fault(self, helm: Helm) -> None:
        """In the chart, its values and their schema."""
        code, said = helm("lint", "--strict", "--set", "configuration=x")
        assert (0, True) == (code, "0 chart(s) failed" in said)

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ("replicas=two", "at '/replicas': got string, want integer"),
            ("replica=3", "additional properties 'replica' not allowed"),
            ("metrics.port=0", "at '/metrics/port': minimum: got 0, want 1"),
            ("replicas=2", "--set-file configuration=mm2.properties"),
        ],
    )
    def test_a_wrong_value_is_one_line(self, helm: Helm, given: str, told: str) -> None:
        """Also that no file was given."""
        code, said = helm("template", "--set", given)
        assert (1, 1) == (code, len([line for line in said.splitlines() if told in line]))

    @pytest.mark.parametrize("version", ["1.29", "1.37"])
    def test_kubernetes_takes_each_resource(self, resources: Resources, version: str) -> None:
        """Every field, by Kubernetes' own schemas, in which a field that is not known is a mistake."""
        for document in resources.values():
            kubernetes_validate.validate(document, version, strict=True)

    def test_the_schemas_find_a_mistake(self, resources: Resources) -> None:
        """Otherwise the test above could not fail."""
        wrong = copy.deepcopy(resources["Deployment", "dr"])
        wrong["spec"]["template"]["spec"]["containers"][0]["arg"] = ["run"]
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.37", strict=True)

    def test_the_deployment_holds_together(self, resources: Resources) -> None:
        """Its mounts have volumes, its command is one of twinlog's, its secret has the file as it was given."""
        spec = resources["Deployment", "dr"]["spec"]
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        assert {it["name"] for it in pod["volumes"]} == {it["name"] for it in container["volumeMounts"]}
        assert (["twinlog"], []) == (container["command"], unknown(container["args"]))
        assert spec["replicas"] > 1
        assert ["dr"] == [it["secret"]["secretName"] for it in pod["volumes"] if "secret" in it]
        assert {Path(container["args"][-1]).name: FILE} == resources["Secret", "dr"]["stringData"]
        assert f"twinlog:{twinlog.__version__}" == container["image"]

    def test_a_bad_file_does_not_replace_good_pods(self, resources: Resources) -> None:
        """Both old processes stay until a new one has stayed for a minute; its liveness is asked at its own port."""
        spec = resources["Deployment", "dr"]["spec"]
        [container] = spec["template"]["spec"]["containers"]
        assert (0, 60) == (spec["strategy"]["rollingUpdate"]["maxUnavailable"], spec["minReadySeconds"])
        assert container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["name"]
        assert container["securityContext"]["readOnlyRootFilesystem"]

    def test_a_changed_file_restarts_the_pods(self, helm: Helm) -> None:
        """By their annotation; a secret of the user's own is not made, and is mounted."""
        first, second = (helm("template", "--set", f"configuration={it}")[1] for it in "xy")
        assert {True} == {"checksum/configuration" in it for it in (first, second)}
        assert first.replace("x", "y").count("kind: Secret") == 1
        assert first != second
        own = helm("template", "--set", "existingSecret=mine")[1]
        assert (0, 1) == (own.count("kind: Secret"), own.count("secretName: mine"))

    def test_every_selector_finds_the_pods(self, resources: Resources) -> None:
        """Of the budget, the service and the network policy; their ports are those of the container."""
        deployment = resources["Deployment", "dr"]["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        selectors = (
            deployment["selector"]["matchLabels"],
            resources["PodDisruptionBudget", "dr"]["spec"]["selector"]["matchLabels"],
            resources["Service", "dr-metrics"]["spec"]["selector"],
            resources["NetworkPolicy", "dr-metrics"]["spec"]["podSelector"]["matchLabels"],
        )
        assert [True] * 4 == [it.items() <= labels.items() and len(it) > 1 for it in selectors]
        [port] = deployment["template"]["spec"]["containers"][0]["ports"]
        service = resources["Service", "dr-metrics"]["spec"]["ports"][0]
        policy = resources["NetworkPolicy", "dr-metrics"]["spec"]
        assert (port["containerPort"], port["name"]) == (service["port"], service["targetPort"])
        assert port["name"] == policy["ingress"][0]["ports"][0]["port"]
