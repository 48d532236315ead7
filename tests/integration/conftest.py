"""Tests of the whole on real brokers: everything below this folder is an integration test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def start_mirror_maker(tmp_path: Path) -> Iterator[Callable]:
    """`start_mirror_maker(properties_text)` starts a real MM2 (a MirrorMaker) that ends with the test.

    Of the present version, or of another one that is named.
    """
    from twinlog.lab.kafka.mirror_maker import MirrorMaker

    with ExitStack() as running:

        def start(properties_text: str, *version: str) -> MirrorMaker:
            folder = tmp_path / f"mirror-maker-{len(list(tmp_path.glob('mirror-maker-*')))}"
            return running.enter_context(MirrorMaker(properties_text, folder, *version))

        yield start
