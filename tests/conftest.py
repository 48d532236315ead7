"""What every test may ask for.  Nothing heavy is imported here: a unit test pays for none of it.

Clusters are started when the first test asks, shared by the whole session, and stopped at its end; tests
keep out of each other's way by topic names of their own (`unique_topic`).
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import tomllib
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

# A failed assertion outside of a test's own module says what it compared, too.
pytest.register_assert_rewrite("checks", "copier", "faults", "lab", "refusing", "stage", "traffic")

pytest_plugins = ["flow_fixtures", "kerberos_realm"]

REPOSITORY = Path(__file__).resolve().parent.parent
_AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="twinlog-airflow-"))

# Airflow reads these once, when it is first imported (conventions of Airflow 3.3).
os.environ["AIRFLOW_HOME"] = str(_AIRFLOW_HOME)
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(REPOSITORY / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(REPOSITORY / "plugins")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__PARALLELISM"] = "4"
os.environ["AIRFLOW__API__HOST"] = "127.0.0.1"
os.environ["GX_ANALYTICS_ENABLED"] = "False"
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

_ORDER = ("airflow", "browser", "integration", "mm2", "spark", "chaos")

# How long an example takes says more about what else the machine does than about the code.  CI tries the same examples
# each time, so that it fails by what was changed; by hand each run tries others.
settings.register_profile("twinlog", deadline=None, derandomize="CI" in os.environ, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile("twinlog")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on machinery begin, Airflow's first, as they are one process's work; units fill the time they wait."""

    def place(item: pytest.Item) -> int:
        needs = [_ORDER.index(mark.name) for mark in item.iter_markers() if mark.name in _ORDER]
        return max(needs, default=len(_ORDER))

    promised = _promised()
    for item in items:
        if any(item.nodeid == name or item.nodeid.startswith((f"{name}[", f"{name}::")) for name in promised):
            item.add_marker("promise")
    items.sort(key=place)
    _skip_other_days(items)


def _promised() -> list[str]:
    """Return the tests that promises.toml lists, as pytest names them."""
    titles = tomllib.loads((REPOSITORY / "tests" / "promises.toml").read_text(encoding="utf-8"))
    return [f"tests/{test}" for title in titles.values() for test in title["tests"]]


def _skip_other_days(items: Iterable[pytest.Item]) -> None:
    """Run a seventh of the long tests each day, so that runs of a week have run all; TWINLOG_LONG=1 runs all.

    Those that hold a promise of README are run each time.
    """
    if os.environ.get("TWINLOG_LONG"):
        return
    today = datetime.now(UTC).toordinal() % 7
    for item in items:
        if item.get_closest_marker("promise"):
            continue
        if item.get_closest_marker("long") and (days := (zlib.crc32(item.nodeid.encode()) - today) % 7):
            item.add_marker(
                pytest.mark.skip(reason=f"long: its day comes in {days}; TWINLOG_LONG=1 runs it now")
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Divide tests by file between processes, which have clusters of their own; the one Airflow is in one of them."""
    from xdist.scheduler import LoadFileScheduling

    class ByMachinery(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "tests/airflow" if file.startswith("tests/airflow/") else file

    return ByMachinery(config, log)


def pytest_sessionfinish() -> None:
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test says where the logs of its clusters are."""
    report = yield
    if report.failed:
        clusters = [value for value in getattr(item, "funcargs", {}).values() if hasattr(value, "logs")]
        for cluster in clusters:
            paths = "\n".join(str(log) for log in cluster.logs)
            report.sections.append((f"broker logs of cluster {cluster.name}", paths))
    return report


@pytest.fixture(autouse=True)
def _loggers_as_they_were() -> Iterator[None]:
    """A command line run inside a test sets the root logger's level, and Airflow disables loggers it does not know."""
    root = logging.getLogger()
    level = root.level
    for name in [it for it in root.manager.loggerDict if it.startswith("twinlog")]:
        logging.getLogger(name).disabled = False
    yield
    root.setLevel(level)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the work tree."""
    return REPOSITORY


@pytest.fixture
def unique_topic() -> Callable[[str], str]:
    """`unique_topic("orders")` is `orders-1f3a9c`: a name no other test has."""
    return lambda stem="topic": f"{stem}-{uuid.uuid4().hex[:6]}"


def _shared_cluster(name: str, folders: pytest.TempPathFactory, **options):
    from twinlog.lab.kafka.broker import EmbeddedKafka

    with EmbeddedKafka(name, folders.mktemp(f"cluster-{name}") / "kafka", **options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_a(tmp_path_factory: pytest.TempPathFactory):
    """One broker of the newest Kafka (an EmbeddedKafka); everyone may do everything."""
    yield from _shared_cluster("A", tmp_path_factory)


@pytest.fixture(scope="session")
def cluster_b(tmp_path_factory: pytest.TempPathFactory):
    """A second one."""
    yield from _shared_cluster("B", tmp_path_factory)


@pytest.fixture(scope="session")
def cluster_c(tmp_path_factory: pytest.TempPathFactory):
    """A third one, for chains, fan-in and fan-out."""
    yield from _shared_cluster("C", tmp_path_factory)


@pytest.fixture(scope="session")
def secure_cluster(tmp_path_factory: pytest.TempPathFactory):
    """A broker with every kind of log-in: SSL, SASL_PLAINTEXT, SASL_SSL; users admin and alice.

    Addresses by `secure_cluster.address("SASL_SSL")`, stores and PEM files by `.certificates`; users are
    User:alice by SASL and User:CN=client by certificate, and may do all that no ACL forbids them.
    """
    options = {
        "listeners": ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "users": {"admin": "admin-password", "alice": "wonder land!"},
    }
    yield from _shared_cluster("secure", tmp_path_factory, **options)
