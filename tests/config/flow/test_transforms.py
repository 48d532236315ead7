"""The keys of transforms: what a file with them is read as, and what is refused, with the line."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ConfigError
from twinlog.transforms.chain import NO_CHAIN, Chain, DropHeaders, Step

MINIMAL = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
CLEAN = "A->B.transforms = clean\nA->B.transforms.clean.type = DropHeaders\nA->B.transforms.clean.headers = trace\n"


def read(tmp_path: Path, lines: str) -> FlowSettings:
    """Read lines below those of a minimal file, the first of them its fifth."""
    path = tmp_path / "mm2.properties"
    path.write_text(MINIMAL + lines)
    return load(path, environ={"TWINLOG_STRICT": "1", "KEY": "Filter"}).flows["A->B"]


def test_the_chain_of_a_flow(tmp_path: Path) -> None:
    """It is part of the settings that go to Spark's tasks; without a line there is none."""
    flow = read(tmp_path, CLEAN)
    assert Chain((Step(DropHeaders(("trace",))),)) == pickle.loads(pickle.dumps(flow)).transforms
    assert NO_CHAIN == read(tmp_path, "").transforms


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (CLEAN.replace("DropHeaders", "${env:KEY}"), ":6: A->B.transforms.clean.type: is a reference"),
        (CLEAN.replace("headers", "header"), "transforms.clean.headers"),
        ("twinlog.transform.rules.x.mask = a\n", ":5: twinlog.transform.rules.x.mask: is unknown"),
    ],
)
def test_a_mistake_has_its_line(tmp_path: Path, lines: str, says: str) -> None:
    """Nothing of it is copied unchanged by accident: each is an error, also a key that is not known."""
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, lines)
    assert says in str(refused.value)
