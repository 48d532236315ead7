"""The image, built by a real Docker on a stand-in for its base: what is in it, how large it is, that it runs.

Cost: 5 to 10 minutes, 6 GB of disk and 400 MB of downloads.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TAG = "twinlog:test"
CANNOT = 3

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Run a `docker` command; its daemon has folders of its own, touches no firewall, and is gone afterwards."""
    folder = tmp_path_factory.mktemp("docker")
    made = subprocess.run(
        [ROOT / ".ci/docker", folder], stderr=subprocess.PIPE, text=True, check=False, timeout=900
    )
    if made.returncode == CANNOT:
        pytest.skip(made.stderr.strip())
    assert 0 == made.returncode, made.stderr[-2000:]
    tools, address = folder / "tools/usr", f"unix://{folder}/docker.sock"
    plugins = folder / "config/cli-plugins"
    plugins.parent.mkdir()
    plugins.symlink_to(tools / "libexec/docker/cli-plugins")
    environment = {
        **os.environ,
        "PATH": f"{tools}/sbin:{tools}/bin:{os.environ['PATH']}",
        "DOCKER_HOST": address,
        "DOCKER_CONFIG": str(folder / "config"),
    }

    def run(*words: str, **variables: str) -> str:
        done = subprocess.run(
            ["docker", *words],
            env=environment | variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout.strip()

    own = [f"--{name}={folder / name}" for name in ("data-root", "exec-root", "pidfile")]
    log = (folder / "log").open("w")
    daemon = subprocess.Popen(
        ["dockerd", *own, "--host", address, "--bridge=none", "--iptables=false", "--ip-forward=false"],
        env=environment,
        stdout=log,
        stderr=log,
    )
    try:
        deadline = time.monotonic() + 60
        while not (folder / "docker.sock").exists() or subprocess.call(
            ["docker", "info"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ):
            if daemon.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.5)
        run("import", str(folder / "base.tar"), "base")
        yield run
    finally:
        daemon.terminate()
        with suppress(subprocess.TimeoutExpired):
            daemon.wait(60)
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def build(docker: Callable[..., str], tag: str, *more: str) -> None:
    """Build the image on the stand-in."""
    given = [*("--build-arg", "BASE=base", "--build-arg", "JAVA=openjdk-21-jre-headless"), *more]
    docker("build", "--network", "host", *given, "--tag", tag, "--file", "docker/Dockerfile", ".")


@pytest.fixture(scope="module")
def image(docker: Callable[..., str]) -> Callable[..., str]:
    """Run a command in a container of the image."""
    build(docker, TAG)
    return lambda *words: docker("run", "--rm", "--network", "none", *words)


def test_it_holds_what_it_runs_with_and_no_more(
    docker: Callable[..., str], image: Callable[..., str]
) -> None:
    """Less than 1.8 GB, no compiler, and twinlog as a package of its own, not as a tree."""
    assert int(docker("image", "inspect", "--format", "{{.Size}}", TAG)) < 1_800_000_000
    found = image(
        TAG, "sh", "-c", "command -v cc gcc zig; python -c 'import twinlog; print(twinlog.__file__)'"
    )
    assert re.fullmatch(r"/opt/twinlog/venv/lib/python3\.\d+/site-packages/twinlog/__init__.py", found)


@pytest.mark.parametrize("user", ["twinlog", "12345"])
def test_it_runs_where_nothing_can_be_written(image: Callable[..., str], user: str) -> None:
    """As a user without a name, too; the kernel is there, compiled."""
    run = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--user", user, TAG]
    assert f"twinlog {version('twinlog')}" == image(*run, "twinlog", "--version")
    assert "True" == image(
        *run, "python", "-c", "from twinlog.batches.plain.library import LIBRARY; print(LIBRARY is not None)"
    )


def test_kerberos_is_built_in_if_asked_for(docker: Callable[..., str]) -> None:
    """The library finds the system's, without a compiler; so do people `klist`."""
    build(docker, f"{TAG}-kerberos", "--build-arg", "KERBEROS=1")
    run = ["run", "--rm", "--network", "none", f"{TAG}-kerberos", "sh", "-c"]
    told = "python -c 'import gssapi; print(gssapi.MechType.kerberos)'; command -v klist cc gcc"
    assert "<OID 1.2.840.113554.1.2.2>\n/usr/bin/klist" == docker(*run, f"{told} || true")


def test_compose_reads_its_file(docker: Callable[..., str]) -> None:
    """Every key, each variable: Compose itself says so."""
    text = (ROOT / "docker-compose.yaml").read_text()
    secrets = {word.split(":")[0]: "x" for word in text.split("${")[1:]}
    assert "" == docker("compose", "config", "--quiet", **secrets)
