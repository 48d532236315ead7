"""The examples for systemd and Kubernetes say what those parsers and twinlog's command line take."""

from __future__ import annotations

import copy
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from twinlog.cli.main import app
from twinlog.errors import ExitCode
from twinlog.shipped import folder

UNITS = sorted((folder("config") / "systemd").iterdir())
RUNS = [it for it in UNITS if it.suffix == ".service"]
KUBERNETES = folder("config") / "kubernetes"


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
def base() -> dict[str, Any]:
    """Return the Kustomize base."""
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def resources(base: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return its resources by kind and name."""
    files = [KUBERNETES / name for name in base["resources"]]
    documents = [it for file in files for it in yaml.safe_load_all(file.read_text())]
    return {(it["kind"], it["metadata"]["name"]): it for it in documents}


class TestKubernetes:
    """The Kustomize base."""

    def test_every_file_of_the_folder_belongs_to_it(self, base: dict[str, Any]) -> None:
        """`kubectl apply -k` leaves out a file that the base does not name."""
        assert sorted([*base["resources"], "kustomization.yaml"]) == sorted(
            it.name for it in KUBERNETES.iterdir()
        )

    @pytest.mark.parametrize("version", ["1.29", "1.37"])
    def test_kubernetes_takes_each_resource(self, resources: dict[Any, Any], version: str) -> None:
        """Every field, by Kubernetes' own schemas, in which a field that is not known is a mistake."""
        for document in resources.values():
            kubernetes_validate.validate(document, version, strict=True)

    def test_the_schemas_find_a_mistake(self, resources: dict[Any, Any]) -> None:
        """Otherwise the test above could not fail."""
        wrong = copy.deepcopy(resources["Deployment", "twinlog"])
        wrong["spec"]["template"]["spec"]["containers"][0]["arg"] = ["run"]
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.37", strict=True)

    def test_the_deployment_holds_together(self, resources: dict[Any, Any], base: dict[str, Any]) -> None:
        """Its mounts have volumes, its command is one of twinlog's, its secret and image are those of the base."""
        spec = resources["Deployment", "twinlog"]["spec"]
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        assert {it["name"] for it in pod["volumes"]} == {it["name"] for it in container["volumeMounts"]}
        assert (["twinlog"], []) == (container["command"], unknown(container["args"]))
        assert spec["replicas"] > 1
        [secret] = base["secretGenerator"]
        assert [secret["name"]] == [it["secret"]["secretName"] for it in pod["volumes"] if "secret" in it]
        assert f"/etc/twinlog/{secret['files'][0]}" == container["args"][-1]
        [image] = base["images"]
        assert f"{image['name']}:{image['newTag']}" == container["image"]

    def test_a_bad_file_does_not_replace_good_pods(self, resources: dict[Any, Any]) -> None:
        """Both old processes stay until a new one has stayed for a minute; its liveness is asked at its own port."""
        spec = resources["Deployment", "twinlog"]["spec"]
        [container] = spec["template"]["spec"]["containers"]
        assert (0, 60) == (spec["strategy"]["rollingUpdate"]["maxUnavailable"], spec["minReadySeconds"])
        assert container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["name"]
        assert container["securityContext"]["readOnlyRootFilesystem"]

    def test_every_selector_finds_the_pods(self, resources: dict[Any, Any]) -> None:
        """Of the budget, the service and the network policy; their ports are those of the container."""
        template = resources["Deployment", "twinlog"]["spec"]["template"]
        labels = template["metadata"]["labels"]
        budget = resources["PodDisruptionBudget", "twinlog"]["spec"]
        service = resources["Service", "twinlog-metrics"]["spec"]
        policy = resources["NetworkPolicy", "twinlog-metrics"]["spec"]
        deployment = resources["Deployment", "twinlog"]["spec"]
        assert [labels] * 4 == [
            deployment["selector"]["matchLabels"],
            budget["selector"]["matchLabels"],
            service["selector"],
            policy["podSelector"]["matchLabels"],
        ]
        [port] = template["spec"]["containers"][0]["ports"]
        assert (port["containerPort"], port["name"]) == (
            service["ports"][0]["port"],
            service["ports"][0]["targetPort"],
        )
        assert port["name"] == policy["ingress"][0]["ports"][0]["port"]
